"""Sums of floating-point numbers that Spark computes for slices."""

import math

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import windrow as wr
from windrow.query.slicing import sql_forms
from windrow_spark import slices
from windrow_spark.schemas import fit


def test_sums_of_slices_are_not_rounded(spark: SparkSession) -> None:
    """Of numbers of every size, of those that cancel out, and of infinities."""
    random = np.random.default_rng(5)
    numbers = {
        "normal": random.normal(size=3000).tolist(),
        "of any size": np.ldexp(random.uniform(-1, 1, 3000), random.integers(-1073, 1010, 3000)).tolist(),
        "large": [1.6e308, -1.6e308, 1e308, 65536.0, -65536.0],
        "tenths": [0.1] * 3000,
        "cancel out": [1e17, 1.0, -1e17, 1e-5],
        "least": [5e-324] * 3 + [-0.0],
        "infinite": [math.inf, 1.0],
        "none": [math.inf, -math.inf],
    }
    rows = pa.table(
        {
            "k": [name for name, values in numbers.items() for _ in values],
            "ts": [at for values in numbers.values() for at, _ in enumerate(values)],
            "load": [value for values in numbers.values() for value in values],
        }
    )
    frame = spark.createDataFrame(rows)
    query = wr.Query(
        "k", window=wr.TimeWindow("1m"), aggregates={"sum": wr.Sum("load"), "mean": wr.Mean("load")}
    )
    fitted = fit(query, frame)
    found = {row.k: row for row in slices.by_slices(frame, fitted, sql_forms(fitted.bound)).collect()}
    for name, values in numbers.items():
        if not all(map(math.isfinite, values)):
            assert repr(found[name].sum) == repr(found[name].mean) == repr(sum(values)), name
            continue
        exact, most = math.fsum(values), max(map(abs, values))
        assert found[name].sum == exact or abs(found[name].sum - exact) <= 1e-15 * most, name
        assert found[name].sum == exact or name == "of any size", name
        assert found[name].mean == found[name].sum / len(values), name
