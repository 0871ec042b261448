//go:build synctests

package millrace

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A whole App and its broker in a bubble with a clock of its own: the default commit interval of half a minute, and minutes of
// quiet, pass in milliseconds.
func TestApp_inABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var vn kfake.VirtualNetwork
		k, err := kfake.NewCluster(kfake.ListenFn(vn.Listen), kfake.NumBrokers(1), kfake.Ports(9092), kfake.SeedTopics(2, "in", "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.Dialer(vn.DialContext), kgo.ConsumeTopics("out"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		app, err := NewApp(countInto(t, "in", "out"), ApplicationID("app"), Brokers(k.ListenAddrs()...), DialContext(vn.DialContext),
			InMemoryState())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- app.Run(ctx) }()
		begin := time.Now()
		for i := range 10 {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k"), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		// The record cache holds the count back until the commit.
		fs := cl.PollFetches(t.Context())
		if n := fs.NumRecords(); n != 1 {
			t.Errorf("%d counts were written, want one", n)
		}
		if waited := time.Since(begin); waited < 25*time.Second || waited > 35*time.Second {
			t.Errorf("the count came after %v, want the commit interval of 30 s", waited)
		}
		time.Sleep(10 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if c := app.Metrics().Commits; c != 1 {
			t.Errorf("%d commits", c)
		}
	})
}
