StreamsBuilder b = new StreamsBuilder();
KStream<String,String> s = b.stream("in");
for (int i = 0; i < 6; i++) {
  KStream<String,String> c = s;
  for (int j = 0; j < (i * 5) % 4; j++) c = c.mapValues(v -> v);
  c.to("out-" + i);
}
s.filter((k, v) -> true).merge(s.filter((k, v) -> false)).mapValues(v -> v).to("out");
return b.build();
