"""What needs an engine is collected where the engine is: `tox -e spark`, `tox -e flink`."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("pyspark") is None:
    collect_ignore += ["tests_spark"]
if find_spec("pyflink") is None:
    collect_ignore += ["tests_flink", "windrow_conformance/engines/flink_steps.py"]
