StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream("in").filter((k, v) -> true).groupByKey().count(Materialized.as("cnt")).toStream().to("out");
return b.build();
