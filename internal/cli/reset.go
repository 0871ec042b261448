package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-io/millrace/internal/broker/kgoclient"
	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/connect"
	"github.com/millrace-io/millrace/internal/reset"
	"github.com/millrace-io/millrace/internal/state"
)

// resetFlags are the flags of the reset.
type resetFlags struct {
	application  string
	brokers      []string
	properties   string
	inputs       []string
	intermediate []string
	internal     []string
	earliest     bool
	latest       bool
	datetime     string
	duration     string
	offset       int64
	shift        int64
	file         string
	stateDirs    []string
	dryRun       bool
	force        bool
}

// rejoinWait is how long an instance that runs may need to notice that it was taken out of its group: two heartbeats at the 3 s
// that Kafka Streams has for them, and the way back.
const rejoinWait = 7 * time.Second

// targetFlags name where offsets go; at most one of them is given.
var targetFlags = [...]string{"to-earliest", "to-latest", "to-datetime", "by-duration", "to-offset", "shift-by", "from-file"}

// bootstrapFlags are other names of --brokers: those that Kafka's tools have for it.
var bootstrapFlags = [...]string{"bootstrap-server", "bootstrap-servers"}

func newReset(f *resetFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset --application-id ID [--input-topics TOPIC,...]",
		Short: "Take an application back to the beginning of its input",
		Long: `Take an application back, so that it builds its results anew: set the committed offsets of its input topics, to the beginning
unless told otherwise, and delete its internal topics (changelogs, repartition topics, topics of foreign-key joins) and the
state directories that are named. It does what kafka-streams-application-reset.sh does for Kafka Streams, and takes the same
flags; names and group are the same, so that each resets the applications of the other.

All instances have to be stopped. The reset refuses while the group has members, and names them; --force takes members out
that a killed instance has left behind. What it does cannot be undone: look at --dry-run first, which changes nothing.

Topics that the application writes stay: the results are written once more, behind those that are there. Offsets of topics
that are not named stay as well. An offset outside of a topic's log becomes the nearest one in it.

The exit code is 0 if everything is as asked for, 1 if not, and 2 for a command line that cannot be understood. A reset that
was cut off is completed by the same command.`,
		Example: `  millrace reset --application-id orders --input-topics clicks,users --dry-run
  millrace reset --application-id orders --input-topics clicks,users --state-dir /var/lib/millrace
  millrace reset --application-id orders --input-topics clicks --to-datetime 2026-11-01T00:00:00.000
  millrace reset --application-id orders --input-topics clicks --by-duration P2D
  millrace reset --application-id orders --brokers kafka:9093 --command-config client.properties`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.application, "application-id", "", "`ID` of the application")
	flags.StringSliceVar(&f.brokers, "brokers", nil, "`HOST:PORT` of a broker, several separated by commas; also --bootstrap-server (default localhost:9092)")
	flags.StringVar(&f.properties, "command-config", "", "properties `FILE` with TLS and SASL settings; that of the application serves too")
	flags.StringSliceVar(&f.inputs, "input-topics", nil, "`TOPICS` whose offsets are set, separated by commas")
	flags.StringSliceVar(&f.intermediate, "intermediate-topics", nil, "`TOPICS` of your own that the application both writes and reads: their offsets go to the end")
	flags.StringSliceVar(&f.internal, "internal-topics", nil, "`TOPICS` to delete, some of those that --dry-run shows (default: all of them); another name is an error")
	flags.BoolVar(&f.earliest, "to-earliest", false, "set offsets to the first record (the default)")
	flags.BoolVar(&f.latest, "to-latest", false, "set offsets to the end")
	flags.StringVar(&f.datetime, "to-datetime", "", "set offsets to the first record at or after a `TIME`, 2026-11-01T08:30:00.000 in UTC or with a zone")
	flags.StringVar(&f.duration, "by-duration", "", "set offsets to the first record of the last `SPAN`, P2D, PT1H30M or 90m")
	flags.Int64Var(&f.offset, "to-offset", 0, "set offsets to `N`")
	flags.Int64Var(&f.shift, "shift-by", 0, "move committed offsets by `N`, back if it is negative")
	flags.StringVar(&f.file, "from-file", "", "set offsets to those in a `FILE` of lines TOPIC,PARTITION,OFFSET")
	flags.StringSliceVar(&f.stateDirs, "state-dir", nil, "`DIR` under which instances on this machine keep their state (state.dir); the application id is added to it, and what is there of the application is deleted")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be done and change nothing")
	flags.BoolVar(&f.force, "force", false, "take members out of the group that killed instances have left behind")
	for _, name := range bootstrapFlags {
		flags.StringSliceVar(&f.brokers, name, nil, "the name of --brokers in Kafka's tools")
		flags.Lookup(name).Hidden = true
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, spec, err := f.settings(cmd)
		if err != nil {
			return err
		}
		return f.run(cmd, cfg, spec)
	}
	return cmd
}

// settings are what the flags and the properties file say together; the flags win.
func (f *resetFlags) settings(cmd *cobra.Command) (*config.Config, reset.Spec, error) {
	cfg := config.Default()
	none := reset.Spec{}
	if f.properties != "" {
		if err := readProperties(cmd, f.properties, &cfg); err != nil {
			return nil, none, err
		}
	}
	flags := cmd.Flags()
	if flags.Changed("application-id") {
		cfg.ApplicationID = f.application
	}
	if flags.Changed("brokers") || slices.ContainsFunc(bootstrapFlags[:], flags.Changed) {
		cfg.BootstrapServers = f.brokers
	} else if len(cfg.BootstrapServers) == 0 {
		cfg.BootstrapServers = []string{"localhost:9092"}
	}
	if cfg.ApplicationID == "" {
		return nil, none, usagef(cmd, "--application-id is needed: the application.id of the application to be reset")
	}
	for _, b := range cfg.BootstrapServers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			return nil, none, usagef(cmd, "--brokers %s: HOST:PORT is needed, such as localhost:9092", b)
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, none, err
	}
	spec := reset.Spec{ApplicationID: cfg.ApplicationID, Inputs: f.inputs, Intermediate: f.intermediate, Force: f.force}
	if flags.Changed("internal-topics") {
		spec.Internal = append([]string{}, f.internal...)
	}
	for _, t := range f.intermediate {
		if slices.Contains(f.inputs, t) {
			return nil, none, usagef(cmd, "topic %s is both in --input-topics and in --intermediate-topics: its offsets are set as asked for, or go to the end; name it once", t)
		}
	}
	for name, topics := range map[string][]string{"input-topics": f.inputs, "intermediate-topics": f.intermediate, "internal-topics": f.internal} {
		if slices.Contains(topics, "") {
			return nil, none, usagef(cmd, "--%s: a name is empty", name)
		}
	}
	var err error
	spec.To, err = f.target(cmd)
	return &cfg, spec, err
}

// target is where offsets go.
func (f *resetFlags) target(cmd *cobra.Command) (t reset.Target, err error) {
	flags := cmd.Flags()
	given := ""
	for _, name := range targetFlags {
		if !flags.Changed(name) {
			continue
		}
		if given != "" {
			return t, usagef(cmd, "--%s and --%s exclude each other", given, name)
		}
		given = name
	}
	if given != "" && len(f.inputs) == 0 {
		return t, usagef(cmd, "--%s sets the offsets of the topics that --input-topics names, and it names none", given)
	}
	switch given {
	case "to-latest":
		t.Kind = reset.ToLatest
	case "to-datetime":
		at, err := reset.ParseTime(f.datetime)
		if err != nil {
			return t, usagef(cmd, "--to-datetime: %w", err)
		}
		t = reset.Target{Kind: reset.ToTime, TimeMs: at.UnixMilli()}
	case "by-duration":
		span, err := reset.ParseSpan(f.duration)
		if err != nil {
			return t, usagef(cmd, "--by-duration: %w", err)
		}
		t = reset.Target{Kind: reset.ToTime, TimeMs: max(0, time.Now().Add(-span).UnixMilli())}
	case "to-offset":
		if f.offset < 0 {
			return t, usagef(cmd, "--to-offset %d: an offset of 0 or more is needed", f.offset)
		}
		t = reset.Target{Kind: reset.ToOffset, Offset: f.offset}
	case "shift-by":
		t = reset.Target{Kind: reset.ShiftBy, Offset: f.shift}
	case "from-file":
		t.Kind = reset.FromFile
		in, err := os.Open(f.file)
		if err != nil {
			return t, fmt.Errorf("millrace: reset: --from-file: %w", err)
		}
		defer func() { _ = in.Close() }()
		if t.File, err = reset.ParseFile(in); err != nil {
			return t, fmt.Errorf("millrace: reset: --from-file %s: %w", f.file, err)
		}
	}
	return t, nil
}

func readProperties(cmd *cobra.Command, file string, cfg *config.Config) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("millrace: reset: --command-config: %w", err)
	}
	defer func() { _ = in.Close() }()
	props, err := config.ParseProperties(in)
	if err != nil {
		return fmt.Errorf("%w; check --command-config %s", err, file)
	}
	changes, err := config.FromProperties(props)
	if err != nil {
		return fmt.Errorf("%w; check --command-config %s", err, file)
	}
	for _, w := range changes.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "millrace: reset: %s: %s\n", file, w)
	}
	changes.Apply(cfg)
	return nil
}

func (f *resetFlags) run(cmd *cobra.Command, cfg *config.Config, spec reset.Spec) (err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), cfg.Admin.APITimeout)
	defer cancel()
	client, err := connect.Client(cfg.BootstrapServers, "millrace-reset", &cfg.Admin.Connection, time.Now)
	if err != nil {
		return err
	}
	client.Seeds = new(kgoclient.Seeds)
	if err := kgoclient.Ping(ctx, client); err != nil {
		return err
	}
	client.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	admin, err := kgoclient.NewAdmin(client)
	if err != nil {
		return err
	}
	defer admin.Close()
	clusterID, err := admin.ClusterID(ctx)
	if err != nil {
		return err
	}
	// Held from here on: an instance that runs on this machine is noticed, and none can start.
	held, busy, notes, err := claim(f.stateDirs, clusterID, spec.ApplicationID)
	defer func() {
		for _, d := range held {
			err = errors.Join(err, d.Close())
		}
	}()
	if err == nil && !f.dryRun {
		err = busy
	}
	if err != nil {
		return err
	}
	view, err := reset.Look(ctx, admin, spec)
	if err != nil {
		return err
	}
	plan, err := reset.Make(spec, view)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	printPlan(out, clusterID, plan)
	printState(out, cfg, spec.ApplicationID, held, notes)
	for _, w := range plan.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "millrace: reset: warning: %s\n", w)
	}
	if f.dryRun {
		fmt.Fprintln(out, "dry run: nothing was changed")
		return errors.Join(plan.Blocked, busy)
	}
	dirs := make([]reset.StateDir, len(held))
	for i, d := range held {
		dirs[i] = d
	}
	wait := func(ctx context.Context) error {
		fmt.Fprintf(out, "waiting for %v, to see whether an instance comes back\n", rejoinWait)
		timer := time.NewTimer(rejoinWait)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := reset.Do(ctx, admin, plan, dirs, wait, func(step string) { fmt.Fprintln(out, "done:", step) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "application %s is reset\n", spec.ApplicationID)
	return nil
}

// claim takes the state directories of the application under each of the directories given. One without state is noted, as is
// one of an instance that runs, which busy says too.
func claim(under []string, clusterID, applicationID string) (held []*state.Claim, busy error, notes []string, err error) {
	for _, above := range under {
		dir := filepath.Join(above, applicationID)
		c, err := state.ClaimDir(nil, dir, clusterID, applicationID)
		switch {
		case errors.Is(err, os.ErrNotExist) && filepath.Base(above) == applicationID && exists(above):
			return held, busy, notes, fmt.Errorf("millrace: reset: --state-dir %s: the application id is added to it, and %s does not exist; give --state-dir %s", above, dir, filepath.Dir(above))
		case errors.Is(err, state.ErrInUse):
			notes = append(notes, dir+" is in use by a running instance, which has to be stopped first")
			busy = errors.Join(busy, fmt.Errorf("%w; stop this instance, and run the command again", err))
		case errors.Is(err, os.ErrNotExist):
			notes = append(notes, dir+" does not exist: nothing to delete")
		case err != nil:
			return held, busy, notes, err
		default:
			held = append(held, c)
		}
	}
	return held, busy, notes, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

// printPlan says what will be done.
func printPlan(w io.Writer, clusterID string, p reset.Plan) {
	fmt.Fprintf(w, "reset of application %s on cluster %s\n", p.ApplicationID, clusterID)
	switch {
	case len(p.Evict) > 0:
		fmt.Fprintf(w, "group: it has %s, to be taken out; the reset ends with an error if an instance still runs and comes back:\n", members(len(p.Evict)))
		for _, m := range p.Evict {
			fmt.Fprintf(w, "  %s\n", m)
		}
	case p.Blocked != nil:
		fmt.Fprintf(w, "group: refused, it has %s\n", members(len(p.Group.Members)))
	case p.Group.Type == "":
		fmt.Fprintf(w, "group: there is none yet\n")
	default:
		fmt.Fprintf(w, "group: no members\n")
	}
	if len(p.Offsets) == 0 {
		fmt.Fprintf(w, "offsets: none are set; name topics with --input-topics to read them again\n")
	} else {
		fmt.Fprintf(w, "offsets to be set:\n")
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "  topic\tpartition\tfrom\tto\t\n")
		for _, m := range p.Offsets {
			from := "-"
			if m.From >= 0 {
				from = fmt.Sprint(m.From)
			}
			fmt.Fprintf(t, "  %s\t%d\t%s\t%d\t%s\n", m.Topic, m.Partition, from, m.To, m.Note)
		}
		_ = t.Flush()
	}
	if len(p.OtherOffsets) > 0 {
		fmt.Fprintf(w, "offsets that stay: those of %s\n", strings.Join(p.OtherOffsets, ", "))
	}
	if len(p.Topics) == 0 {
		fmt.Fprintf(w, "internal topics to be deleted: none\n")
	} else {
		fmt.Fprintf(w, "internal topics to be deleted:\n")
		for _, t := range p.Topics {
			fmt.Fprintf(w, "  %s\n", t)
		}
	}
	if len(p.Kept) > 0 {
		fmt.Fprintf(w, "internal topics that stay: %s\n", strings.Join(p.Kept, ", "))
	}
}

// printState says what becomes of state on disks.
func printState(w io.Writer, cfg *config.Config, applicationID string, held []*state.Claim, notes []string) {
	for _, d := range held {
		fmt.Fprintf(w, "state to be deleted: %s\n", d.Path())
	}
	for _, n := range notes {
		fmt.Fprintf(w, "state: %s\n", n)
	}
	if len(held)+len(notes) == 0 {
		fmt.Fprintf(w, "state: what instances keep on their disks stays; it has to go too, on each machine: millrace reset --state-dir DIR, or delete %s\n",
			filepath.Join(cfg.StateDir, applicationID))
	}
}
