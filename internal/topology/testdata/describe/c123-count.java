StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").groupByKey().count().toStream().to("out");
return b.build();
