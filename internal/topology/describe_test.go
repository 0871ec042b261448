package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribeEqualsJava(t *testing.T) {
	for _, file := range graphFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".graph")
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(strings.TrimSuffix(file, ".graph") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), buildGraph(t, name).Describe()); diff != "" {
				t.Errorf("-java +ours:\n%s", diff)
			}
		})
	}
}
