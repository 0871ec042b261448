// Package integration_test runs whole applications against brokers: the embedded one and Apache Kafka. Some of its tests
// start this test binary again as processes of an application, to kill them.
package integration_test

import (
	"testing"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestMain(m *testing.M) {
	childTopologies.Main()
	kafkatest.Main(m)
}
