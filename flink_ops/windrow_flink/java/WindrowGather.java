// SPDX-License-Identifier: Apache-2.0
// Gathers rows by bucket of keys, column by column; an element holds many rows of one bucket.
//
// All that was gathered goes out before a watermark and before a checkpoint barrier. So nothing has to be kept in state,
// and no row becomes late.
//
// Flink compiles this text in the TaskManagers, as it does with the operators of its SQL. Its compiler, Janino, knows no
// lambdas, and makes wrong code of some conditional expressions inside the arguments of a call.

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.zip.CRC32;
import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.runtime.operators.TableStreamOperator;
import org.apache.flink.types.Row;

public class WindrowGather extends TableStreamOperator implements OneInputStreamOperator, ProcessingTimeCallback {
  private static final int REMEMBERED = 1 << 20;
  private static final int MOST_TEXT = 1 << 22;

  private final char[] kinds;
  private final int[] positions;
  private final int time;
  private final long times;
  private final long divided;
  private final boolean floating;
  private final int[] keys;
  private final int[] flinkKeys;
  private final boolean timed;
  private final long disorder;
  private final int rows;
  private final long shift;
  private final int fingerprint;

  private transient Bucket[] buckets;
  private transient HashMap known;
  private transient long latest;
  private transient long told;
  private transient long interval;
  private transient long passed;
  private transient Watermark held;

  public WindrowGather(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService clock)
      throws Exception {
    String[] columns = ((String) references[0]).split(" ");
    kinds = new char[columns.length];
    positions = new int[columns.length];
    CRC32 crc = new CRC32();
    for (int c = 0; c < columns.length; c++) {
      kinds[c] = columns[c].charAt(0);
      positions[c] = Integer.parseInt(columns[c].substring(1));
      crc.update(kinds[c]);
    }
    fingerprint = (int) crc.getValue();
    time = Integer.parseInt((String) references[1]);
    times = Long.parseLong((String) references[2]);
    divided = Long.parseLong((String) references[3]);
    floating = kinds[time] == 'f' || kinds[time] == 'd';
    keys = numbers((String) references[4]);
    flinkKeys = numbers((String) references[5]);
    disorder = Long.parseLong((String) references[6]);
    timed = disorder >= 0;
    rows = Integer.parseInt((String) references[7]);
    shift = Long.parseLong((String) references[8]);
    setup(task, config, output);
    setProcessingTimeService(clock);
  }

  private static int[] numbers(String text) {
    if (text.isEmpty()) return new int[0];
    String[] parts = text.split(" ");
    int[] found = new int[parts.length];
    for (int i = 0; i < parts.length; i++) found[i] = Integer.parseInt(parts[i]);
    return found;
  }

  public void open() throws Exception {
    super.open();
    known = new HashMap();
    buckets = new Bucket[flinkKeys.length];
    for (int b = 0; b < buckets.length; b++) buckets[b] = new Bucket(flinkKeys[b], kinds, rows);
    latest = Long.MIN_VALUE;
    told = Long.MIN_VALUE;
    interval = getExecutionConfig().getAutoWatermarkInterval();
    if (interval > 0) wake();
  }

  public void processElement(StreamRecord element) throws Exception {
    Object value = element.getValue();
    Object[] row = new Object[kinds.length];
    for (int c = 0; c < row.length; c++) {
      int position = positions[c];
      if (position < 0) row[c] = Long.valueOf((element.getTimestamp() + shift) * 1000L);
      else if (value instanceof Row) row[c] = ((Row) value).getField(position);
      else row[c] = ((Tuple) value).getField(position);
    }
    Bucket bucket = buckets[bucketOf(row)];
    long moment = moment(row[time]);
    bucket.add(row, moment);
    if (moment > latest) latest = moment;
    if (bucket.rows == rows || bucket.text > MOST_TEXT) flush(bucket);
  }

  // The time of a row in microseconds. That of a row without a time is refused later, where the query is known.
  private long moment(Object value) {
    if (value == null) return Long.MIN_VALUE;
    if (!floating) {
      long number = ((Number) value).longValue();
      return times == 1 && divided == 1 ? number : Math.floorDiv(number * times, divided);
    }
    double number = ((Number) value).doubleValue();
    return Math.abs(number) < 9.2e18 ? (long) Math.rint(number * times / divided) : Long.MIN_VALUE;
  }

  private int bucketOf(Object[] row) {
    if (keys.length == 0) return 0;
    Object key;
    if (keys.length == 1) {
      key = row[keys[0]];
    } else {
      Object[] all = new Object[keys.length];
      for (int k = 0; k < all.length; k++) all[k] = row[keys[k]];
      key = Arrays.asList(all);
    }
    Integer found = (Integer) known.get(key);
    if (found == null) {
      if (known.size() >= REMEMBERED) known.clear();
      found = Integer.valueOf(hashed(row));
      known.put(key, found);
    }
    return found.intValue();
  }

  // The same as Buckets.of in Python: what was computed there may be in state.
  private int hashed(Object[] row) {
    CRC32 crc = new CRC32();
    crc.update('t');
    size(crc, keys.length);
    for (int k = 0; k < keys.length; k++) encode(crc, kinds[keys[k]], row[keys[k]]);
    return (int) (crc.getValue() % flinkKeys.length);
  }

  private static void encode(CRC32 crc, char kind, Object value) {
    if (value == null) {
      crc.update('N');
    } else if (kind == '?') {
      if (((Boolean) value).booleanValue()) crc.update('T');
      else crc.update('F');
    } else if (kind == 's') {
      byte[] text = value.toString().getBytes(StandardCharsets.UTF_8);
      crc.update('u');
      size(crc, text.length);
      crc.update(text, 0, text.length);
    } else if (kind == 'f' || kind == 'd') {
      double number = ((Number) value).doubleValue() + 0.0;
      crc.update('f');
      little(crc, Double.doubleToLongBits(number), 8);
    } else {
      long number = ((Number) value).longValue();
      int bytes = (64 - Long.numberOfLeadingZeros(Math.abs(number))) / 8 + 1;
      crc.update('i');
      size(crc, bytes);
      little(crc, number, Math.min(bytes, 8));
      if (bytes > 8) crc.update((int) (number >> 63) & 255);
    }
  }

  private static void size(CRC32 crc, int length) {
    little(crc, length, 4);
  }

  private static void little(CRC32 crc, long value, int bytes) {
    for (int i = 0; i < bytes; i++) crc.update((int) (value >> (8 * i)) & 255);
  }

  // A stream that is read faster than it came about has many watermarks, with few rows between them. Those that come
  // within one interval of the clock are held until it ends, and the last of them passes.
  public void processWatermark(Watermark mark) throws Exception {
    if (mark.getTimestamp() == Long.MAX_VALUE) {
      pass(mark);
    } else if (!timed) {
      // A table's watermark is often the time of its latest row, and another row of that time may follow.
      held = positions[time] < 0 ? new Watermark(mark.getTimestamp() - 1) : mark;
      if (getProcessingTimeService().getCurrentProcessingTime() >= passed + interval) pass(held);
    }
  }

  public void processWatermarkStatus(WatermarkStatus status) throws Exception {
    if (held != null) pass(held);
    super.processWatermarkStatus(status);
  }

  public void onProcessingTime(long timestamp) throws Exception {
    if (timed && latest != Long.MIN_VALUE) {
      long mark = Math.floorDiv(latest, 1000L) - disorder - 1;
      if (mark > told) held = new Watermark(mark);
    }
    if (held != null) pass(held);
    else flush();
    wake();
  }

  private void pass(Watermark mark) throws Exception {
    flush();
    held = null;
    told = mark.getTimestamp();
    passed = getProcessingTimeService().getCurrentProcessingTime();
    super.processWatermark(mark);
  }

  private void wake() {
    ProcessingTimeService clock = getProcessingTimeService();
    clock.registerTimer(clock.getCurrentProcessingTime() + interval, this);
  }

  public void prepareSnapshotPreBarrier(long checkpoint) throws Exception {
    flush();
  }

  public void finish() throws Exception {
    flush();
    super.finish();
  }

  private void flush() {
    for (int b = 0; b < buckets.length; b++) if (buckets[b].rows > 0) flush(buckets[b]);
  }

  // What an element tells of the time: no row that follows is earlier by more than the disorder.
  private void flush(Bucket bucket) {
    long waiting = bucket.max;
    for (int b = 0; b < buckets.length; b++) {
      if (buckets[b] != bucket && buckets[b].rows > 0) waiting = Math.min(waiting, buckets[b].min);
    }
    byte[] packed = bucket.pack(waiting, fingerprint);
    output.collect(new StreamRecord(Row.of(new Object[] {Integer.valueOf(bucket.key), packed})));
  }

  // The rows of one bucket that wait: a buffer for each column.
  private static final class Bucket {
    private static final Number ZERO = Integer.valueOf(0);
    final int key;
    final char[] kinds;
    final int capacity;
    final ByteBuffer[] data;
    final byte[][] texts;
    final int[] ends;
    final byte[][] valid;
    final boolean[] nulls;
    int rows;
    int text;
    long min;
    long max;

    Bucket(int key, char[] kinds, int capacity) {
      this.key = key;
      this.kinds = kinds;
      this.capacity = capacity;
      data = new ByteBuffer[kinds.length];
      texts = new byte[kinds.length][];
      ends = new int[kinds.length];
      valid = new byte[kinds.length][];
      nulls = new boolean[kinds.length];
    }

    private void clear() {
      rows = 0;
      text = 0;
      min = Long.MAX_VALUE;
      max = Long.MIN_VALUE;
      for (int c = 0; c < kinds.length; c++) {
        ends[c] = 0;
        nulls[c] = false;
        if (data[c] == null) {
          data[c] = ByteBuffer.allocate(capacity * width(kinds[c])).order(ByteOrder.LITTLE_ENDIAN);
          valid[c] = new byte[(capacity + 7) / 8];
          if (kinds[c] == 's') texts[c] = new byte[capacity * 4];
        }
        Arrays.fill(valid[c], (byte) 0);
        if (kinds[c] == '?') Arrays.fill(data[c].array(), (byte) 0);
      }
    }

    private static int width(char kind) {
      switch (kind) {
        case 'b': return 1;
        case '?': return 1;
        case 'h': return 2;
        case 'i': return 4;
        case 'f': return 4;
        case 's': return 4;
        default: return 8;
      }
    }

    void add(Object[] row, long moment) {
      if (rows == 0) clear();
      int at = rows++;
      if (moment < min) min = moment;
      if (moment > max) max = moment;
      for (int c = 0; c < kinds.length; c++) {
        Object value = row[c];
        if (value == null) nulls[c] = true;
        else valid[c][at >> 3] |= (byte) (1 << (at & 7));
        put(c, at, value);
      }
    }

    private void put(int c, int at, Object value) {
      ByteBuffer to = data[c];
      char kind = kinds[c];
      if (kind == 's') {
        putText(c, at, value);
      } else if (kind == '?') {
        if (value != null && ((Boolean) value).booleanValue()) to.array()[at >> 3] |= (byte) (1 << (at & 7));
      } else {
        Number number = value == null ? ZERO : (Number) value;
        switch (kind) {
          case 'l': to.putLong(at * 8, number.longValue()); break;
          case 'd': to.putDouble(at * 8, number.doubleValue()); break;
          case 'i': to.putInt(at * 4, number.intValue()); break;
          case 'f': to.putFloat(at * 4, number.floatValue()); break;
          case 'h': to.putShort(at * 2, number.shortValue()); break;
          default: to.put(at, number.byteValue());
        }
      }
    }

    private void putText(int c, int at, Object value) {
      if (value != null) {
        byte[] bytes = value.toString().getBytes(StandardCharsets.UTF_8);
        int end = ends[c] + bytes.length;
        if (end > texts[c].length) texts[c] = Arrays.copyOf(texts[c], Math.max(end, 2 * texts[c].length));
        System.arraycopy(bytes, 0, texts[c], ends[c], bytes.length);
        ends[c] = end;
        text += bytes.length;
      }
      data[c].putInt(at * 4, ends[c]);  // where it ends; it begins where the one before ends
    }

    // A head as in elements.py, the time told, a mark, the kinds of the columns; then each column as Arrow has it.
    byte[] pack(long waiting, int fingerprint) {
      int size = 32;
      for (int c = 0; c < kinds.length; c++) size += 8 + length(c);
      ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
      out.putInt(key).putInt(rows).putLong(min).putLong(waiting).putInt(1).putInt(fingerprint);
      for (int c = 0; c < kinds.length; c++) {
        int begin = out.position() + 8;
        int flags = (rows + 7) / 8;
        if (nulls[c]) {
          out.putInt(padded(flags)).putInt(ends[c]);
          out.put(valid[c], 0, flags);
          begin += padded(flags);
        } else {
          out.putInt(0).putInt(ends[c]);
        }
        out.position(begin);
        if (kinds[c] == 's') {
          out.putInt(0);
          out.put(data[c].array(), 0, rows * 4);
          begin += padded((rows + 1) * 4);
          out.position(begin);
          out.put(texts[c], 0, ends[c]);
          begin += padded(ends[c]);
        } else {
          out.put(data[c].array(), 0, fixed(c));
          begin += padded(fixed(c));
        }
        out.position(begin);
      }
      rows = 0;
      return out.array();
    }

    private int fixed(int c) {
      return kinds[c] == '?' ? (rows + 7) / 8 : rows * width(kinds[c]);
    }

    private int length(int c) {
      int bytes = nulls[c] ? padded((rows + 7) / 8) : 0;
      if (kinds[c] == 's') bytes += padded((rows + 1) * 4) + padded(ends[c]);
      else bytes += padded(fixed(c));
      return bytes;
    }

    private static int padded(int bytes) {
      return (bytes + 7) & ~7;
    }
  }
}
