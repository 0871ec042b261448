package kgoclient

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Seeds are the bootstrap addresses that the clients of one App share. Ping narrows them to those that answer.
//
// franz-go turns to a bootstrap address now and then for as long as it runs. One that takes connections and says nothing
// would hold each request that happens to go there for a request timeout, several times over at the start.
type Seeds struct {
	mu       sync.Mutex
	clients  []*kgo.Client // to be told
	answered []string      // nil before Ping
}

// addresses are the ones to connect a new client with.
func (s *Seeds) addresses(all []string) []string {
	if s == nil {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered == nil {
		return all
	}
	return s.answered
}

// add registers a client.
func (s *Seeds) add(cl *kgo.Client) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered == nil {
		s.clients = append(s.clients, cl)
	}
}

// narrow leaves the addresses that have answered. The others come back as brokers of the cluster, if that is what they are.
func (s *Seeds) narrow(answered []string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = slices.Sorted(slices.Values(answered))
	for _, cl := range s.clients {
		if err := cl.UpdateSeedBrokers(s.answered...); err != nil {
			return err
		}
	}
	s.clients = nil
	return nil
}
