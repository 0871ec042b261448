StreamsBuilder b = new StreamsBuilder();
String[] names = {"orders", "clicks", "users", "pages", "views", "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"};
for (String n : names) b.addStateStore(kv(n));
KStream<String,String> s = b.stream("in");
s.process(Pass::new, names);
s.process(Pass::new, "users", "alpha", "BB".equals("Aa") ? "x" : "clicks");
return b.build();
