StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in", Consumed.as("read"))
    .filter((k, v) -> true, Named.as("keep"))
    .mapValues(v -> v, Named.as("shorten"))
    .groupBy((k, v) -> v, Grouped.as("by-word"))
    .count(Named.as("counter"), Materialized.as("counts"))
    .toStream(Named.as("changes"))
    .to("out", Produced.as("write"));
return b.build();
