# SPDX-License-Identifier: Apache-2.0
"""Aggregates: the algebra, and one small file per family."""

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, aggregate_from_dict
from windrow.aggregates.apply import Apply
from windrow.aggregates.bloom_filter import BloomFilter
from windrow.aggregates.counting import Count
from windrow.aggregates.distinct import CountDistinct
from windrow.aggregates.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount
from windrow.aggregates.holistic import Collect, Median, Quantile, TopK
from windrow.aggregates.hyperloglog import HyperLogLog
from windrow.aggregates.increasing_run import LongestIncreasingRun
from windrow.aggregates.kll import KLL
from windrow.aggregates.model_fit import LevenbergMarquardt
from windrow.aggregates.moment_sketch import MomentSketch
from windrow.aggregates.moments import Std, Var
from windrow.aggregates.order import First, Last
from windrow.aggregates.own import OwnAggregate, aggregate_type
from windrow.aggregates.polynomial_fit import LinearFit, PolynomialFit
from windrow.aggregates.product import product
from windrow.aggregates.readacross import from_beam, from_flink
from windrow.aggregates.skyline import Skyline
from windrow.aggregates.slider import Slider
from windrow.aggregates.stops import Stops
from windrow.aggregates.sums import GeometricMean, Mean, Product, Sum
from windrow.columns.encoding import decode, encode

__all__ = [
    "KLL",
    "Aggregate",
    "Apply",
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "Collect",
    "Count",
    "CountDistinct",
    "Field",
    "First",
    "GeometricMean",
    "HyperLogLog",
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
    "OwnAggregate",
    "PolynomialFit",
    "Product",
    "Quantile",
    "Skyline",
    "SliceSql",
    "Slider",
    "Std",
    "Stops",
    "Sum",
    "TopK",
    "Var",
    "aggregate_from_dict",
    "aggregate_type",
    "decode",
    "encode",
    "from_beam",
    "from_flink",
    "product",
]
