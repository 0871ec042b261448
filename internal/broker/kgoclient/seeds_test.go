package kgoclient

import (
	"context"
	"net"
	"testing"
	"time"
)

// An address that takes connections and says nothing holds nobody up once Ping has found the others, whether a client was
// opened before or after.
func TestSeeds_silentAddress(t *testing.T) {
	_, cfg := startCluster(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := l.Addr().String()
	cfg.Bootstrap = []string{silent, cfg.Bootstrap[0], silent}
	cfg.Seeds = new(Seeds)
	before := newAdmin(t, cfg)
	if err := Ping(testCtx(t), cfg); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Admin{before, newAdmin(t, cfg)} {
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half of a request timeout
			_, err := a.ClusterID(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
