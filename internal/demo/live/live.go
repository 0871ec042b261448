package live

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/millrace-io/millrace/internal/demo"
)

// Run shows a run of the demo on a terminal while it lasts: run is called with the functions that it must report to, and a
// context that ends when the user presses q or Ctrl-C. Run returns what run returned, after the last frame.
func Run(ctx context.Context, in io.Reader, out io.Writer, where string,
	run func(ctx context.Context, progress func(demo.Progress), output func(demo.Output)) (demo.Summary, error),
) (demo.Summary, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	board := NewBoard()
	p := tea.NewProgram(newModel(where, board, stop, lipgloss.NewRenderer(out)), tea.WithInput(in), tea.WithOutput(out),
		tea.WithAltScreen(), tea.WithoutSignalHandler())

	var summary demo.Summary
	var runErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		summary, runErr = run(ctx, func(pr demo.Progress) { p.Send(progressMsg(pr)) }, board.Add)
		p.Send(doneMsg{})
	}()
	_, err := p.Run()
	if err != nil {
		stop() // the view failed, and the run with it
	}
	<-done
	if runErr == nil && err != nil {
		runErr = fmt.Errorf("millrace: demo: the live view failed: %w; use --once to do without", err)
	}
	return summary, runErr
}

// Messages of the model beside bubbletea's own.
type (
	progressMsg demo.Progress
	frameMsg    time.Time
	doneMsg     struct{}
)

// model is the view's state, in bubbletea's form.
type model struct {
	screen screen
	board  *Board
	stop   func()
	ended  bool
}

const (
	statusRunning  = "q or Ctrl-C stops in good order"
	statusStopping = "stopping: what was read is being finished and committed"
)

func newModel(where string, board *Board, stop func(), r *lipgloss.Renderer) model {
	return model{
		screen: screen{where: where, status: statusRunning, width: 80, height: 24, styles: newStyles(r)},
		board:  board,
		stop:   stop,
	}
}

// Init starts the frames.
func (m model) Init() tea.Cmd { return nextFrame() }

func nextFrame() tea.Cmd {
	return tea.Tick(refresh, func(t time.Time) tea.Msg { return frameMsg(t) })
}

// Update takes in one message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.width, m.screen.height = msg.Width, msg.Height
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			m.screen.status = statusStopping
			m.stop()
		}
	case progressMsg:
		m.screen.progress = demo.Progress(msg)
	case frameMsg:
		m.screen.board = m.board.Snapshot()
		return m, nextFrame()
	case doneMsg:
		m.ended = true
		return m, tea.Quit
	}
	return m, nil
}

// View draws the present frame.
func (m model) View() string {
	if m.ended {
		return ""
	}
	return m.screen.render()
}
