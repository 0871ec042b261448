StreamsBuilder b = new StreamsBuilder();
KStream<String,String> x = b.stream("in");
KStream<String,String> y = b.stream("in");
x.merge(y).to("out");
y.mapValues(v -> v).to("out-2");
return b.build();
