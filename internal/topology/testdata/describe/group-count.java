StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").groupBy((k, v) -> v).count().toStream().to("out");
return b.build();
