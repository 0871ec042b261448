StreamsBuilder b = new StreamsBuilder();
b.<String,String>stream(List.of("orders", "clicks", "users", "pages", "views", "alpha", "beta", "gamma", "delta", "epsilon",
    "zeta", "eta", "theta", "iota", "kappa")).to("out");
b.<String,String>stream(List.of("b", "a", "Aa", "BB", "c")).to("out-2");
return b.build();
