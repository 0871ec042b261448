StreamsBuilder b = new StreamsBuilder();
KGroupedStream<String,String> x = b.<String,String>stream("a").groupByKey();
KGroupedStream<String,String> y = b.<String,String>stream("b").groupBy((k, v) -> v);
KGroupedStream<String,String> z = b.<String,String>stream("c").groupByKey();
x.<String>cogroup((k, v, a) -> a).cogroup(y, (k, v, a) -> a).cogroup(z, (k, v, a) -> a)
    .aggregate(() -> "", Materialized.as("together")).toStream().to("out");
return b.build();
