Topology t = new Topology();
t.addSource("s", "t");
t.addProcessor("p", Pass::new, "s", "s");
t.addProcessor("q", Pass::new, "p", "s");
t.addSink("k", "o", "q", "p", "q");
return t;
