package codec

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// Computed by Murmur3.hash128 of Kafka Streams 4.4.0: each length of the tail with bytes above 127, whole blocks, and the
// rows of other tests.
func TestMurmur3_javaVectors(t *testing.T) {
	for _, c := range []struct{ data, hash string }{
		{"", "9d2764a018e329428c3cf3b035938518"},
		{"ca", "1909c2cef34f43377b0d9eab08e2ee92"},
		{"d1dc", "bb29d3b74a7ce79d0d6178e7da989f4e"},
		{"d8e3ee", "923c0dbc384b765096d416a254fa6943"},
		{"dfeaf500", "4264099e1cd514327813ce831bbce4df"},
		{"e6f1fc0712", "bd3236736c09e0c0446160edb7a7422a"},
		{"edf8030e1924", "0a537988741abe8912153c1e0029a368"},
		{"f4ff0a15202b36", "9026806fd78985cce6dc326ccb21e8c7"},
		{"fb06111c27323d48", "f4536ab3bc27f8f5c59d18f0180895ae"},
		{"020d18232e39444f5a", "b24706d83638addb515e5be2ea7cf5b0"},
		{"09141f2a35404b56616c", "25d83034bd0a06f556850327553482ca"},
		{"101b26313c47525d68737e", "d6125ad6a2c6f10d3dd5d99b518a4cf5"},
		{"17222d38434e59646f7a8590", "40d293e2b6b48d4a4fb389262a5fa365"},
		{"1e29343f4a55606b76818c97a2", "9aacbe4da3d8a60c80716a4e640b1e34"},
		{"25303b46515c67727d88939ea9b4", "ba1456fc7c234f216e007dcdaceeae0c"},
		{"2c37424d58636e79848f9aa5b0bbc6", "02ecf92cea2c33e358321beeaf630113"},
		{"333e49545f6a75808b96a1acb7c2cdd8", "ffae633e9c5ecf342f37caf5de817196"},
		{"3a45505b66717c87929da8b3bec9d4dfea", "4696db98f2343b0c5313144f33c95b54"},
		{"414c57626d78838e99a4afbac5d0dbe6f1fc", "5e9f86fe1a55fb1ffc2dd2c89392fc69"},
		{"48535e69747f8a95a0abb6c1ccd7e2edf8030e", "afee5fefda13fb94c3354ecba1d4c910"},
		{"4f5a65707b86919ca7b2bdc8d3dee9f4ff0a1520", "2ce80938df0fe9da102c7a740fb55e22"},
		{"56616c77828d98a3aeb9c4cfdae5f0fb06111c2732", "09b49ca7f90f28d322b2ed1cff41187c"},
		{"5d68737e89949faab5c0cbd6e1ecf7020d18232e3944", "3edd27c9156d31caeefd5dba1bcb89da"},
		{"646f7a85909ba6b1bcc7d2dde8f3fe09141f2a35404b56", "3bc143f013195837c29b4b7f2cd3f2b9"},
		{"6b76818c97a2adb8c3ced9e4effa05101b26313c47525d68", "9e209feea8a5a0011365730ed8b68a10"},
		{"727d88939ea9b4bfcad5e0ebf6010c17222d38434e59646f7a", "343aba373da83ea7d090015023cc8a38"},
		{"79848f9aa5b0bbc6d1dce7f2fd08131e29343f4a55606b76818c", "0393c960ea0d25cb078065d7b8a2b433"},
		{"808b96a1acb7c2cdd8e3eef9040f1a25303b46515c67727d88939e", "de0633d4760cb10e37bd22037cd62ab9"},
		{"87929da8b3bec9d4dfeaf5000b16212c37424d58636e79848f9aa5b0", "f8917aee8de20635d68043aab7a3517e"},
		{"8e99a4afbac5d0dbe6f1fc07121d28333e49545f6a75808b96a1acb7c2", "0d8763e3151b3cc27572fbaa923a3b47"},
		{"95a0abb6c1ccd7e2edf8030e19242f3a45505b66717c87929da8b3bec9d4", "694babc9578c4e8e106518c037b3dbb6"},
		{"9ca7b2bdc8d3dee9f4ff0a15202b36414c57626d78838e99a4afbac5d0dbe6", "6cfe0dbcab1bef9817b7b3151e398671"},
		{"a3aeb9c4cfdae5f0fb06111c27323d48535e69747f8a95a0abb6c1ccd7e2edf8", "52c81efb47650ce1ba73b863ead27fec"},
		{"aab5c0cbd6e1ecf7020d18232e39444f5a65707b86919ca7b2bdc8d3dee9f4ff0a", "85b07f060aa990c89fbc4292901d780e"},
		{"4631", "91737f70a01c2b065441949a7914b7fe"},
		{"64313a78", "485e7277833407e5d01eec785e73f124"},
		{"5ac3bc72696368", "529d4eea1401577930c8f0c40ec84b99"},
	} {
		got := Murmur3(unhex(t, c.data))
		if hex.EncodeToString(got[:]) != c.hash {
			t.Errorf("Murmur3(%s) = %x, want %s", c.data, got, c.hash)
		}
	}
}

func TestMurmur3_doesNotAllocate(t *testing.T) {
	data := bytes.Repeat([]byte("row"), 11)
	if n := testing.AllocsPerRun(100, func() { Murmur3(data) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}

func BenchmarkMurmur3(b *testing.B) {
	data := bytes.Repeat([]byte("0123456789"), 10)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Murmur3(data)
	}
}
