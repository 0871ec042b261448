package io.millrace.conformance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Writes the vectors of one seed: see README.md of the folder conformance. */
public final class Main {
    private static final String KAFKA = "4.4.0";

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        Long seed = null;
        Path out = null;
        boolean compress = false;
        boolean list = false;
        List<String> names = new ArrayList<>();
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--seed" -> seed = Long.parseLong(args[++i]);
                case "--out" -> out = Path.of(args[++i]);
                case "--scenario" -> names.add(args[++i]);
                case "--gzip" -> compress = true;
                case "--list" -> list = true;
                default -> throw new IllegalArgumentException("what is " + args[i] + "?");
            }
        }
        Registry registry = Registry.load();
        if (list) {
            registry.all().forEach(s -> System.out.println(s.name()));
            return;
        }
        if (seed == null || out == null) {
            throw new IllegalArgumentException("--seed and --out are needed");
        }
        Collection<Scenario> scenarios = registry.all();
        if (!names.isEmpty()) {
            scenarios = new ArrayList<>();
            for (String name : names) {
                if (registry.get(name) == null) {
                    System.err.println("there is no scenario " + name + " on the Java side");
                    System.exit(2);
                }
                scenarios.add(registry.get(name));
            }
        }
        write(scenarios, seed, out.resolve("seed-" + seed), compress, names.isEmpty());
    }

    private static void write(Collection<Scenario> scenarios, long seed, Path dir, boolean compress, boolean complete)
            throws IOException {
        if (Files.exists(dir)) {
            delete(dir);
        }
        Files.createDirectories(dir);
        Path state = Files.createTempDirectory("millrace-conformance");
        List<String> failed = new ArrayList<>();
        try {
            for (Scenario s : scenarios) {
                Path file = dir.resolve(s.name() + ".jsonl" + (compress ? ".gz" : ""));
                try (Lines lines = new Lines(file, compress)) {
                    new Run(s, seed, lines).write(state.resolve(s.name()));
                } catch (RuntimeException | ReflectiveOperationException e) {
                    System.err.println("scenario " + s.name() + " failed:");
                    e.printStackTrace();
                    failed.add(s.name());
                }
            }
        } finally {
            delete(state);
        }
        if (!failed.isEmpty()) {
            System.err.println("failed: " + failed);
            System.exit(1);
        }
        // Written last: a folder without it is not finished.
        try (Lines lines = new Lines(dir.resolve("manifest.json"), false)) {
            lines.write("format", Run.FORMAT, "seed", seed, "kafka", KAFKA, "complete", complete,
                "scenarios", scenarios.stream().map(Scenario::name).toList());
        }
    }

    private static void delete(Path dir) throws IOException {
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(dir)) {
            paths = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path p : paths) {
            Files.delete(p);
        }
    }
}
