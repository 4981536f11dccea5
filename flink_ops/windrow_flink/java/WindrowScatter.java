// SPDX-License-Identifier: Apache-2.0
// Elements that hold many windows, column by column, become a row for each window.
//
// Flink compiles this text in the TaskManagers, as it does with the operators of its SQL: see WindrowGather.java.

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.table.runtime.operators.TableStreamOperator;
import org.apache.flink.types.Row;

public class WindrowScatter extends TableStreamOperator implements OneInputStreamOperator {
  private final char[] kinds;
  private transient StreamRecord made;

  public WindrowScatter(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService clock)
      throws Exception {
    kinds = ((String) references[0]).toCharArray();
    setup(task, config, output);
    setProcessingTimeService(clock);
  }

  public void open() throws Exception {
    super.open();
    made = new StreamRecord(null);
  }

  public void processElement(StreamRecord element) throws Exception {
    byte[] packed = (byte[]) element.getValue();
    ByteBuffer in = ByteBuffer.wrap(packed).order(ByteOrder.LITTLE_ENDIAN);
    int rows = in.getInt(0);
    Row[] found = new Row[rows];
    for (int r = 0; r < rows; r++) found[r] = new Row(kinds.length);
    int at = 8;
    for (int c = 0; c < kinds.length; c++) {
      int validity = in.getInt(at);
      int text = in.getInt(at + 4);
      int valid = at + 8;
      int data = valid + validity;
      int texts = data + padded((rows + 1) * 4);
      for (int r = 0; r < rows; r++) {
        boolean here = validity == 0 || (packed[valid + (r >> 3)] >> (r & 7) & 1) == 1;
        if (here) found[r].setField(c, value(packed, in, kinds[c], data, texts, r));
      }
      at = kinds[c] == 's' ? texts + padded(text) : data + padded(fixed(kinds[c], rows));
    }
    if (element.hasTimestamp()) made.setTimestamp(element.getTimestamp());
    else made.eraseTimestamp();
    for (int r = 0; r < rows; r++) output.collect(made.replace(found[r]));
  }

  private static Object value(byte[] packed, ByteBuffer in, char kind, int data, int texts, int r) {
    switch (kind) {
      case 'l': return Long.valueOf(in.getLong(data + r * 8));
      case 'd': return Double.valueOf(in.getDouble(data + r * 8));
      case 'i': return Integer.valueOf(in.getInt(data + r * 4));
      case 'f': return Float.valueOf(in.getFloat(data + r * 4));
      case 'h': return Short.valueOf(in.getShort(data + r * 2));
      case 'b': return Byte.valueOf(packed[data + r]);
      case '?': return Boolean.valueOf((packed[data + (r >> 3)] >> (r & 7) & 1) == 1);
      default:
        int begin = in.getInt(data + r * 4);
        int end = in.getInt(data + r * 4 + 4);
        return new String(packed, texts + begin, end - begin, StandardCharsets.UTF_8);
    }
  }

  private static int fixed(char kind, int rows) {
    switch (kind) {
      case '?': return (rows + 7) / 8;
      case 'b': return rows;
      case 'h': return rows * 2;
      case 'i': return rows * 4;
      case 'f': return rows * 4;
      default: return rows * 8;
    }
  }

  private static int padded(int bytes) {
    return (bytes + 7) & ~7;
  }
}
