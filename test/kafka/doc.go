// Package kafkatest gives tests and benchmarks an Apache Kafka to talk to: the real broker, started on free ports of
// 127.0.0.1, or franz-go's in-process broker behind the same small interface, so that one suite runs on both.
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
//
//	func TestCopy(t *testing.T) {
//		kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
//			in := kafkatest.CreateTopic(t, b, "in", 4)
//			kafkatest.Load(t, b, in, &kgo.Record{Key: []byte("k"), Value: []byte("v")})
//			…
//			got := kafkatest.ReadAll(t, b, in, kafkatest.Committed)
//		})
//	}
//
// # The real broker
//
// Kafka 4.4.0 is fetched once through Maven into a cache folder and then started with the java on the PATH (17 or newer)
// in KRaft mode. Start gives a cluster of one or three brokers that the test owns, may stop, kill and restart; Shared gives
// one broker for the whole test binary, which is the cheap way for tests that only need a broker with names of their own.
// Whatever happens to the test process, SIGKILL included, its brokers end with it and their data is removed.
//
// # Environment
//
//	MILLRACE_KAFKA=off         leaves the real broker out: its tests are skipped
//	MILLRACE_REQUIRE_KAFKA=1   a real broker that cannot be had fails the test; without it the test is skipped with one
//	                           line that says what is missing
//	MILLRACE_CACHE=DIR         where the jars are kept; millrace in the user's cache folder if not set
package kafkatest
