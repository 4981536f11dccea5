# SPDX-License-Identifier: Apache-2.0
"""windrow: sliding-window aggregation in constant time per slide, in-process, on PySpark and on PyFlink."""

from typing import TYPE_CHECKING

from windrow import data, laws
from windrow.aggregates import (
    KLL,
    Aggregate,
    Apply,
    ArgMax,
    ArgMin,
    BloomFilter,
    Collect,
    Count,
    CountDistinct,
    First,
    GeometricMean,
    HyperLogLog,
    Last,
    LevenbergMarquardt,
    LinearFit,
    LongestIncreasingRun,
    Max,
    MaxCount,
    Mean,
    Median,
    Min,
    MinCount,
    MomentSketch,
    Monoid,
    OwnAggregate,
    PolynomialFit,
    Product,
    Quantile,
    Skyline,
    Slider,
    Std,
    Stops,
    Sum,
    TopK,
    Var,
    aggregate_type,
    from_beam,
    from_flink,
    product,
)
from windrow.approximate.within import AtMost, Within
from windrow.explain import Explanation, explain
from windrow.local import aggregate, stream
from windrow.operator import Operator
from windrow.operator.idle import Idle, IdleFigures
from windrow.query import Query
from windrow.sliding import sliding
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)

__version__ = "0.1.0"
__all__ = [
    "KLL",
    "Aggregate",
    "Apply",
    "ArgMax",
    "ArgMin",
    "AtMost",
    "BloomFilter",
    "Collect",
    "Count",
    "CountDistinct",
    "CountWindow",
    "DeltaWindow",
    "Explanation",
    "First",
    "GeometricMean",
    "HyperLogLog",
    "Idle",
    "IdleFigures",
    "Last",
    "LevenbergMarquardt",
    "LinearFit",
    "LongestIncreasingRun",
    "Max",
    "MaxCount",
    "Mean",
    "Median",
    "Min",
    "MinCount",
    "MomentSketch",
    "Monoid",
    "Operator",
    "OwnAggregate",
    "PolicyWindow",
    "PolynomialFit",
    "Product",
    "Quantile",
    "Query",
    "SessionWindow",
    "Skyline",
    "SlideByTime",
    "SlideByTuple",
    "Slider",
    "Std",
    "Stops",
    "Sum",
    "TimeWindow",
    "TopK",
    "Var",
    "Within",
    "aggregate",
    "aggregate_type",
    "data",
    "explain",
    "from_beam",
    "from_flink",
    "laws",
    "product",
    "sliding",
    "stream",
]

if not TYPE_CHECKING:  # a type checker knows the names itself

    def __getattr__(name):
        from windrow.names_elsewhere import no_name

        raise no_name(name, __all__)
