package kafkatest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that systems hand out for outgoing connections (from 32768 on Linux). From within
// it, a client that dials a stopped broker could be given the broker's own port to dial from, and would then hold it, or
// even be connected to itself.
const firstPort, endPort = 18000, 32000

// freePorts finds n ports of 127.0.0.1 on which nothing listens, none of them in taken. Another process may still get
// there first; Start tries again then.
func freePorts(n int, taken map[int]bool) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(endPort-firstPort)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		l.Close()
		taken[port] = true
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("kafkatest: no %d free ports of 127.0.0.1 between %d and %d", n, firstPort, endPort)
}
