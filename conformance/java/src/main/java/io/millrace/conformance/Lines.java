package io.millrace.conformance;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;

/** Writes JSON lines. Bytes are hexadecimal, maps are sorted. */
final class Lines implements Closeable {
    private final Writer out;

    Lines(Path file, boolean compress) throws IOException {
        OutputStream raw = new BufferedOutputStream(Files.newOutputStream(file));
        if (compress) {
            raw = new GZIPOutputStream(raw) {
                {
                    def.setLevel(9);
                }
            };
        }
        out = new OutputStreamWriter(raw, StandardCharsets.UTF_8);
    }

    /** Writes an object of names and values in turn. */
    void write(Object... fields) throws IOException {
        StringBuilder line = new StringBuilder("{");
        for (int i = 0; i < fields.length; i += 2) {
            if (i > 0) {
                line.append(',');
            }
            append(line, fields[i]);
            line.append(':');
            append(line, fields[i + 1]);
        }
        out.write(line.append("}\n").toString());
    }

    private static void append(StringBuilder line, Object v) {
        if (v == null || v instanceof Number || v instanceof Boolean) {
            line.append(v);
        } else if (v instanceof byte[] bytes) {
            line.append('"').append(HexFormat.of().formatHex(bytes)).append('"');
        } else if (v instanceof List<?> list) {
            String sep = "[";
            for (Object x : list) {
                line.append(sep);
                append(line, x);
                sep = ",";
            }
            line.append(list.isEmpty() ? "[]" : "]");
        } else if (v instanceof Map<?, ?> map) {
            String sep = "{";
            for (Map.Entry<?, ?> e : new TreeMap<>(map).entrySet()) {
                line.append(sep);
                append(line, e.getKey());
                line.append(':');
                append(line, e.getValue());
                sep = ",";
            }
            line.append(map.isEmpty() ? "{}" : "}");
        } else {
            quote(line, v.toString());
        }
    }

    private static void quote(StringBuilder line, String s) {
        line.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            switch (c) {
                case '"' -> line.append("\\\"");
                case '\\' -> line.append("\\\\");
                case '\n' -> line.append("\\n");
                default -> {
                    if (c < ' ') {
                        line.append(String.format("\\u%04x", (int) c));
                    } else {
                        line.append(c);
                    }
                }
            }
        }
        line.append('"');
    }

    @Override
    public void close() throws IOException {
        out.close();
    }
}
