StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream(Pattern.compile("orders-[0-9]+")).merge(b.stream("extra")).to("out");
b.<String,String>stream(Pattern.compile("orders-[0-9]+")).to("out-2");
return b.build();
