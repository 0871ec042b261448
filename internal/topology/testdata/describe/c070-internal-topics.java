StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.<String,String>stream("a").merge(b.stream("b"));
s.groupBy((k, v) -> v, Grouped.as("g")).count(Materialized.as("cnt"));
s.groupBy((k, v) -> v, Grouped.as("gw"))
    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofMinutes(30)))
    .count(Materialized.<String,Long,WindowStore<org.apache.kafka.common.utils.Bytes,byte[]>>as("wcnt").withRetention(Duration.ofHours(6)));
s.groupBy((k, v) -> v, Grouped.as("gs"))
    .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(5)))
    .count(Materialized.as("scnt"));
b.table("t", Materialized.<String,String>as(Stores.persistentVersionedKeyValueStore("ver", Duration.ofHours(2))));
s.repartition(Repartitioned.<String,String>as("five").withNumberOfPartitions(5)).to("out");
return b.build();
