StreamsBuilder b = new StreamsBuilder();
Map<String,KStream<String,String>> m = b.<String,String>stream("in").split(Named.as("by-size-"))
    .branch((k, v) -> v.length() > 100, Branched.as("big"))
    .branch((k, v) -> v.length() > 10, Branched.as("middle"))
    .branch((k, v) -> v.length() > 5)
    .defaultBranch(Branched.as("small"));
KStream<String,String> big = m.get("by-size-big").mapValues(v -> v).peek((k, v) -> {});
KStream<String,String> middle = m.get("by-size-middle").flatMapValues(v -> List.of(v));
m.get("by-size-small").foreach((k, v) -> {});
big.merge(middle).merge(m.get("by-size-small")).to("out");
big.to("out-big");
return b.build();
