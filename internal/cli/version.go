package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			return printVersion(cmd.OutOrStdout(), info)
		},
	}
}

// printVersion prints what the build recorded: the module's version, and the commit where it was built from a checkout.
func printVersion(w io.Writer, info *debug.BuildInfo) error {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit != "" {
		commit = ", commit " + commit
		if settings["vcs.modified"] == "true" {
			commit += " with changes"
		}
	}
	_, err := fmt.Fprintf(w, "millrace %s%s, %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
