package config

import (
	"testing"
	"time"
)

// The table is what java.time.Duration of Java 17 answers.
func TestParseISODuration_asJava(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want time.Duration
		text string // of Duration#toString; empty where Java refuses the input
	}{
		{"PT1H", time.Hour, "PT1H"},
		{"P1D", 24 * time.Hour, "PT24H"},
		{"P2DT3H4M", 183840 * time.Second, "PT51H4M"},
		{"PT20.345S", 20345 * time.Millisecond, "PT20.345S"},
		{"PT15M", 15 * time.Minute, "PT15M"},
		{"-PT6H3M", -21780 * time.Second, "PT-6H-3M"},
		{"PT-6H3M", -21420 * time.Second, "PT-5H-57M"},
		{"-PT-6H+3M", 21420 * time.Second, "PT5H57M"},
		{"PT0S", 0, "PT0S"},
		{"pt1h", time.Hour, "PT1H"},
		{"PT1,5S", 1500 * time.Millisecond, "PT1.5S"},
		{"+PT1S", time.Second, "PT1S"},
		{"P-1DT24H", 0, "PT0S"},
		{"PT1.S", time.Second, "PT1S"},
		{"PT0.000000001S", 1, "PT0.000000001S"},
		{"PT-0.5S", -500 * time.Millisecond, "PT-0.5S"},
		{in: "P"}, {in: "PT"}, {in: "P1H"}, {in: "PT1D"}, {in: "PT1.5H"}, {in: "PT1M1H"}, {in: "PT1H1H"}, {in: "PT1e3S"},
		{in: "PT.5S"}, {in: "P1DT"}, {in: "PT1S "}, {in: ""}, {in: "1h"},
		{in: "PT3000000H"}, // more than Go's Duration holds; Java takes it
		{in: "P106751DT99999999999S"},
	} {
		d, err := ParseISODuration(tc.in)
		if (err != nil) != (tc.text == "") || d != tc.want {
			t.Errorf("%q: %v, %v; want %v", tc.in, d, err, tc.want)
			continue
		}
		if tc.text != "" && d >= 0 && formatISODuration(d) != tc.text {
			t.Errorf("%v is written %q, want %q", d, formatISODuration(d), tc.text)
		}
	}
}
