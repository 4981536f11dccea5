"""Flink can run windrow: its workers import it, and keyed state is there."""

from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_j_env_configuration

import windrow
from windrow_flink import environment
from windrow_flink.environment import slots_together


def test_workers_import_windrow_and_keep_keyed_state(flink: StreamExecutionEnvironment) -> None:
    class CountRows(KeyedProcessFunction):
        def open(self, context: RuntimeContext) -> None:
            self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(
            self, value: tuple[str, int], context: KeyedProcessFunction.Context
        ) -> Iterator[str]:
            import windrow  # in the worker

            n = (self.count.value() or 0) + 1
            self.count.update(n)
            yield f"{value[0]} {n} {windrow.__version__}"

    rows = [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    stream = flink.from_collection(rows, type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
    counted = stream.key_by(lambda row: row[0]).process(CountRows(), output_type=Types.STRING())
    with counted.execute_and_collect() as results:
        found = sorted(results)
    assert found == [
        f"{key} {n} {windrow.__version__}" for key, n in [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    ]


def test_the_mode_is_such_that_slots_add_up() -> None:
    def mode(parallelism: int, **options: Any) -> str:
        made = environment(parallelism, **options)
        key = get_gateway().jvm.org.apache.flink.python.PythonOptions.PYTHON_EXECUTION_MODE
        return str(made._j_stream_execution_environment.getConfiguration().get(key))

    assert [mode(1), mode(2), mode(2, mode="thread")] == ["thread", "process", "thread"]
    assert mode(2, state="rocksdb") == "thread"
    assert mode(2, settings={"python.execution-mode": "thread"}) == "thread"


def test_how_rocksdb_merges_files_can_be_set() -> None:
    style = "state.backend.rocksdb.compaction.style"
    for settings, expected in (({}, "UNIVERSAL"), ({style: "LEVEL"}, "LEVEL")):
        made = environment(state="rocksdb", settings=settings)
        option = get_gateway().jvm.org.apache.flink.state.rocksdb.RocksDBConfigurableOptions.COMPACTION_STYLE
        assert str(made._j_stream_execution_environment.getConfiguration().get(option)) == expected


def test_how_many_slots_share_a_taskmanager() -> None:
    made = environment()
    configuration = get_j_env_configuration(made._j_stream_execution_environment)
    assert slots_together(made, 3) == 3  # a mini-cluster has one
    configuration.setString("execution.target", "remote")
    assert slots_together(made, 3) == 1
    configuration.setString("taskmanager.numberOfTaskSlots", "2")
    assert [slots_together(made, parallelism) for parallelism in (1, 3)] == [1, 2]
