StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").groupBy((k, v) -> v).count().toStream().groupByKey().count();
return b.build();
