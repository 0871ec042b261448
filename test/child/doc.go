// Package child runs applications in processes of their own, which a test may kill. A test binary starts itself again: Main,
// called first in TestMain, tells a child from a test.
//
//	var topologies = child.Topologies[topics]{"copy": copyTopology}
//
//	func TestMain(m *testing.M) {
//		topologies.Main()
//		kafkatest.Main(m)
//	}
//
//	c := child.Start(t, "first", child.Spec[topics]{Topology: "copy", Topics: …, Settings: …})
//	c.Kill()
//
// Other programs can be children too (StartCommand) if they answer each line on their standard input with a Status, end when
// that input ends, and drain on SIGTERM.
package child
