"""Aggregates: the algebra, and one small file per family."""

from windrow.aggregates.algebra import Aggregate, Field, Monoid, SliceSql, aggregate_from_dict
from windrow.aggregates.bloom_filter import BloomFilter
from windrow.aggregates.counting import Count
from windrow.aggregates.encoding import decode, encode
from windrow.aggregates.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount
from windrow.aggregates.holistic import Collect, Median, Quantile, TopK
from windrow.aggregates.hyperloglog import HyperLogLog
from windrow.aggregates.moment_sketch import MomentSketch
from windrow.aggregates.moments import Std, Var
from windrow.aggregates.order import First, Last, LongestIncreasingRun
from windrow.aggregates.own import aggregate_type
from windrow.aggregates.product import product
from windrow.aggregates.readacross import from_beam, from_flink
from windrow.aggregates.stops import Stops
from windrow.aggregates.sums import GeometricMean, Mean, Product, Sum

__all__ = [
    "Aggregate",
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "Collect",
    "Count",
    "Field",
    "First",
    "GeometricMean",
    "HyperLogLog",
    "Last",
    "LongestIncreasingRun",
    "Max",
    "MaxCount",
    "Mean",
    "Median",
    "Min",
    "MinCount",
    "MomentSketch",
    "Monoid",
    "Product",
    "Quantile",
    "SliceSql",
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
