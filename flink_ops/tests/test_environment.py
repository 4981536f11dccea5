"""Flink can run windrow: its workers import it, and keyed state is there."""

from collections.abc import Iterator

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

import windrow


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
