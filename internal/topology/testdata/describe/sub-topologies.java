StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.stream("in");
s.groupBy((k, v) -> v).count(Materialized.as("one")).toStream().map((k, v) -> KeyValue.pair(k, k))
    .groupByKey().reduce((x, y) -> y, Materialized.as("two")).toStream().to("out");
s.repartition().to("copy");
b.<String,String>stream("other").filterNot((k, v) -> false).to("other-out");
return b.build();
