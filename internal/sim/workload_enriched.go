package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Enriched joins a stream of numbered orders with a table of prices that rise: each order once and in order, with a price
// that never falls.
func Enriched() Workload {
	return Workload{
		Name:    "enriched",
		Inputs:  []Topic{{"prices", partitions}, {"orders", partitions}},
		Outputs: []Topic{{"priced", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			prices := millrace.TableFrom(b, millrace.NewTopic("prices", serde.String, serde.String), v.options("prices")...)
			orders := millrace.From(b, millrace.NewTopic("orders", serde.String, serde.String))
			millrace.LeftJoinTable(orders, prices, func(order, price string, ok bool) string {
				v.inside()
				if !ok {
					price = "-1"
				}
				return order + " " + price
			}, millrace.As("enrich")).To(millrace.NewTopic("priced", serde.String, serde.String))
			return b.Build()
		},
		NewFeed: func(rng *rand.Rand) Feed {
			return &pricesAndOrders{rng: rng, prices: newNumbers("prices", rng), orders: newNumbers("orders", rng)}
		},
		NewOracle: func(e Expectation) Oracle {
			return &enrichedOracle{tally: newTally(e), prices: make(map[string]int64), priced: make(map[string]int64)}
		},
	}
}

type pricesAndOrders struct {
	rng            *rand.Rand
	prices, orders *numbers
}

// Next implements Feed.
func (f *pricesAndOrders) Next() Input {
	if f.rng.IntN(2) == 0 {
		return f.prices.Next()
	}
	return f.orders.Next()
}

// Last implements Feed: one more order of each key, which must find the last price.
func (f *pricesAndOrders) Last() []Input {
	f.orders.atMs = max(f.orders.atMs, f.prices.atMs)
	return f.orders.Last()
}

// enrichedOracle knows that orders come once and in order, and that prices do not fall.
type enrichedOracle struct {
	tally
	prices map[string]int64 // fed
	priced map[string]int64 // the last price that was found, plus one
}

// Fed implements Oracle.
func (o *enrichedOracle) Fed(in Input) {
	key := string(in.Key)
	if in.Topic == "prices" {
		o.prices[key]++
		return
	}
	o.fed[key]++
}

// Result implements Oracle.
func (o *enrichedOracle) Result(r Result) error {
	key := string(r.Key)
	orderText, priceText, _ := strings.Cut(string(r.Value), " ")
	order, err := strconv.ParseInt(orderText, 10, 64)
	price, err2 := strconv.ParseInt(priceText, 10, 64)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if err := o.step(key, order+1); err != nil {
		return err
	}
	if price >= o.prices[key] {
		return fmt.Errorf("key %s: order %d has found the price %d, %d were fed", key, order, price, o.prices[key])
	}
	if o.Exactly && price+1 < o.priced[key] {
		return fmt.Errorf("key %s: order %d has found the price %d, and one before it %d: updates of the table are lost", key, order, price, o.priced[key]-1)
	}
	o.priced[key] = max(o.priced[key], price+1)
	return nil
}

// Complete implements Oracle. The last order of each key came behind the last price.
func (o *enrichedOracle) Complete() error {
	errs := []error{o.complete()}
	for _, k := range allKeys() {
		if o.fed[k] > 0 && o.priced[k] < o.prices[k] {
			errs = append(errs, fmt.Errorf("key %s: the last order has found the price %d, want %d: updates of the table are lost", k, o.priced[k]-1, o.prices[k]-1))
		}
	}
	return errors.Join(errs...)
}

// Answered implements Oracle.
func (o *enrichedOracle) Answered(topic string, partition int32) (int64, bool) {
	return o.answered[partition], topic == "orders" && o.Exactly
}
