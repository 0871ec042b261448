StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").selectKey((k, v) -> v).mapValues(v -> v).selectKey((k, v) -> v)
    .groupByKey().count().toStream().to("out");
return b.build();
