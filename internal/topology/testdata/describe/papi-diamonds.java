Topology t = new Topology();
t.addSource("in", "topic");
String last = "in";
for (int i = 0; i < 4; i++) {
  t.addProcessor("left-" + i, Pass::new, last);
  t.addProcessor("right-" + i, Pass::new, last);
  t.addProcessor("mid-" + i, Pass::new, last);
  t.addProcessor("join-" + i, Pass::new, "left-" + i, "mid-" + i, "right-" + i);
  last = "join-" + i;
}
t.addSink("out", "out-topic", last, "mid-0", "in");
return t;
