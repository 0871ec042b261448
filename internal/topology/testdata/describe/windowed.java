StreamsBuilder b = new StreamsBuilder();
KGroupedStream<String,String> g = b.<String,String>stream("in").groupByKey();
g.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(10))).count(Materialized.as("minutes"))
    .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream().to("out-minutes");
g.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(5))).count(Materialized.as("sessions"))
    .toStream().to("out-sessions");
g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(2), Duration.ofMinutes(1))).count()
    .toStream().to("out-sliding");
return b.build();
