package codec

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// Written by SubscriptionWrapperSerde of Kafka Streams 4.4.0, for partition 7; no hash is a null one.
var subscriptions = []struct {
	instruction Instruction
	hash        string
	version     int
	key, hex    string
}{
	{0, "", 0, "", "8000"},
	{0, "", 0, "31ff", "800031ff"},
	{0, "", 1, "", "810000000007"},
	{0, "", 1, "31ff", "810031ff00000007"},
	{0, "0102030405060708fffffffffffffffe", 0, "", "00000102030405060708fffffffffffffffe"},
	{0, "0102030405060708fffffffffffffffe", 0, "31ff", "00000102030405060708fffffffffffffffe31ff"},
	{0, "0102030405060708fffffffffffffffe", 1, "", "01000102030405060708fffffffffffffffe00000007"},
	{0, "0102030405060708fffffffffffffffe", 1, "31ff", "01000102030405060708fffffffffffffffe31ff00000007"},
	{1, "", 0, "", "8001"},
	{1, "", 0, "31ff", "800131ff"},
	{1, "", 1, "", "810100000007"},
	{1, "", 1, "31ff", "810131ff00000007"},
	{1, "0102030405060708fffffffffffffffe", 0, "", "00010102030405060708fffffffffffffffe"},
	{1, "0102030405060708fffffffffffffffe", 0, "31ff", "00010102030405060708fffffffffffffffe31ff"},
	{1, "0102030405060708fffffffffffffffe", 1, "", "01010102030405060708fffffffffffffffe00000007"},
	{1, "0102030405060708fffffffffffffffe", 1, "31ff", "01010102030405060708fffffffffffffffe31ff00000007"},
	{2, "", 0, "", "8002"},
	{2, "", 0, "31ff", "800231ff"},
	{2, "", 1, "", "810200000007"},
	{2, "", 1, "31ff", "810231ff00000007"},
	{2, "0102030405060708fffffffffffffffe", 0, "", "00020102030405060708fffffffffffffffe"},
	{2, "0102030405060708fffffffffffffffe", 0, "31ff", "00020102030405060708fffffffffffffffe31ff"},
	{2, "0102030405060708fffffffffffffffe", 1, "", "01020102030405060708fffffffffffffffe00000007"},
	{2, "0102030405060708fffffffffffffffe", 1, "31ff", "01020102030405060708fffffffffffffffe31ff00000007"},
	{3, "", 0, "", "8003"},
	{3, "", 0, "31ff", "800331ff"},
	{3, "", 1, "", "810300000007"},
	{3, "", 1, "31ff", "810331ff00000007"},
	{3, "0102030405060708fffffffffffffffe", 0, "", "00030102030405060708fffffffffffffffe"},
	{3, "0102030405060708fffffffffffffffe", 0, "31ff", "00030102030405060708fffffffffffffffe31ff"},
	{3, "0102030405060708fffffffffffffffe", 1, "", "01030102030405060708fffffffffffffffe00000007"},
	{3, "0102030405060708fffffffffffffffe", 1, "31ff", "01030102030405060708fffffffffffffffe31ff00000007"},
}

func TestSubscription_javaVectors(t *testing.T) {
	for _, c := range subscriptions {
		s := Subscription{Instruction: c.instruction, HasHash: c.hash != "", PrimaryKey: unhex(t, c.key), Partition: 7, HasPartition: true}
		copy(s.Hash[:], unhex(t, c.hash))
		if c.version == 0 {
			s.Partition, s.HasPartition = 0, false
		}
		if got := hex.EncodeToString(AppendSubscription([]byte("dst"), &s)[3:]); got != c.hex {
			t.Errorf("AppendSubscription(%+v) = %s, want %s", s, got, c.hex)
		}
		got, err := ParseSubscription(unhex(t, c.hex))
		if err != nil {
			t.Errorf("ParseSubscription(%s): %v", c.hex, err)
			continue
		}
		key := got.PrimaryKey
		got.PrimaryKey, s.PrimaryKey = nil, nil
		if got.Instruction != s.Instruction || got.HasHash != s.HasHash || got.Hash != s.Hash || got.Partition != s.Partition ||
			got.HasPartition != s.HasPartition || hex.EncodeToString(key) != c.key {
			t.Errorf("ParseSubscription(%s) = %+v with key %x, want %+v with key %s", c.hex, got, key, s, c.key)
		}
	}
}

// Written by SubscriptionResponseWrapperSerde of Kafka Streams 4.4.0.
func TestSubscriptionResponse_javaVectors(t *testing.T) {
	for _, c := range []struct{ hash, value, hex string }{
		{"", "", "80"},
		{"", "58ff", "8058ff"},
		{"0102030405060708fffffffffffffffe", "", "000102030405060708fffffffffffffffe"},
		{"0102030405060708fffffffffffffffe", "58ff", "000102030405060708fffffffffffffffe58ff"},
	} {
		r := SubscriptionResponse{HasHash: c.hash != "", Value: unhex(t, c.value)}
		copy(r.Hash[:], unhex(t, c.hash))
		if got := hex.EncodeToString(AppendSubscriptionResponse([]byte("dst"), &r)[3:]); got != c.hex {
			t.Errorf("AppendSubscriptionResponse(%+v) = %s, want %s", r, got, c.hex)
		}
		got, err := ParseSubscriptionResponse(unhex(t, c.hex))
		if err != nil || got.HasHash != r.HasHash || got.Hash != r.Hash || got.Value == nil || !bytes.Equal(got.Value, r.Value) {
			t.Errorf("ParseSubscriptionResponse(%s) = %+v, %v, want %+v", c.hex, got, err, r)
		}
	}
}

// Written by CombinedKeySchema of Kafka Streams 4.4.0.
func TestCombinedKey_javaVectors(t *testing.T) {
	for _, c := range []struct{ foreign, primary, hex string }{{"46fe", "31", "0000000246fe31"}, {"", "", "00000000"}} {
		got, err := AppendCombinedKey([]byte("dst"), unhex(t, c.foreign), unhex(t, c.primary))
		if err != nil || hex.EncodeToString(got[3:]) != c.hex {
			t.Errorf("AppendCombinedKey(%s, %s) = %x, %v, want %s", c.foreign, c.primary, got, err, c.hex)
		}
		foreign, primary, err := ParseCombinedKey(unhex(t, c.hex))
		if err != nil || hex.EncodeToString(foreign) != c.foreign || hex.EncodeToString(primary) != c.primary {
			t.Errorf("ParseCombinedKey(%s) = %x, %x, %v", c.hex, foreign, primary, err)
		}
	}
	if got, err := AppendForeignKeyPrefix(nil, []byte{0x46, 0xfe}); err != nil || hex.EncodeToString(got) != "0000000246fe" {
		t.Errorf("prefix %x, %v", got, err)
	}
}

func TestForeignKeyMessages_refused(t *testing.T) {
	subscription := func(b []byte) error { _, err := ParseSubscription(b); return err }
	response := func(b []byte) error { _, err := ParseSubscriptionResponse(b); return err }
	combined := func(b []byte) error { _, _, err := ParseCombinedKey(b); return err }
	for _, c := range []struct {
		parse     func([]byte) error
		hex, want string
	}{
		{subscription, "", "neither version nor instruction"},
		{subscription, "01", "neither version nor instruction"},
		{subscription, "0203", "version 2"},
		{subscription, "0104", "unknown instruction 4"},
		{subscription, "01030102", "inside its hash"},
		{subscription, "8103000000", "inside its partition"},
		{response, "", "no bytes"},
		{response, "81", "version 1"},
		{response, "0001", "inside its hash"},
		{combined, "000000", "no room"},
		{combined, "0000000231", "is to have 2"},
		{combined, "ffffffff31", "is to have 4294967295"},
	} {
		if err := c.parse(unhex(t, c.hex)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.hex, err, c.want)
		}
	}
}

func TestForeignKeyMessages_doNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 128)
	s := Subscription{Instruction: SubscribeAndAnswer, HasHash: true, PrimaryKey: []byte("p1"), Partition: 3, HasPartition: true}
	r := SubscriptionResponse{HasHash: true, Value: []byte("one")}
	n := testing.AllocsPerRun(100, func() {
		dst = AppendSubscription(dst[:0], &s)
		_, _ = ParseSubscription(dst)
		dst = AppendSubscriptionResponse(dst[:0], &r)
		_, _ = ParseSubscriptionResponse(dst)
		dst, _ = AppendCombinedKey(dst[:0], []byte("d1"), []byte("p1"))
		_, _, _ = ParseCombinedKey(dst)
	})
	if n != 0 {
		t.Errorf("%v allocations for each round", n)
	}
}

func FuzzParseSubscription(f *testing.F) {
	for _, c := range subscriptions {
		f.Add(unhex(f, c.hex))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := ParseSubscription(src)
		if err != nil {
			return
		}
		if again := AppendSubscription(nil, &s); !bytes.Equal(again, src) {
			t.Fatalf("%x: read as %+v, written as %x", src, s, again)
		}
	})
}
