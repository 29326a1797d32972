package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sdnpu/sdnpu/graphswap"
)

// SwitchOptions says which plans to compare, and for what.
type SwitchOptions struct {
	Device, Model  string
	Prompt, Output int   // tokens
	Blocks         []int // numbers of blocks
	Rows1, Rows2   int   // of the long and of the short graph
	// Verify is the rows of a decode pass; more than Rows2 run as several
	// executes. Zero means Rows2.
	Verify    int
	AllLogits bool
	// Drafts gives the head graphs of both widths, as the engine does that drafts.
	Drafts bool
	// Plans are names; those that exchange graphs are compared with and without a
	// spare slot, or as "+spare" or "-spare" behind the name says.
	Plans []string
	// Widths also compares everything on one short graph at other widths than
	// Rows2.
	Widths bool
	// Accept is the number of tokens per decode pass; above one a draft is
	// charged.
	Accept float64
	// Execute runs a plan for real and returns what it took. Nil leaves
	// execution out.
	Execute Executor
	// Progress is told after each plan.
	Progress func(done, total int)
}

// Executor runs plans on a device that keeps the profile's time.
type Executor interface {
	Execute(ctx context.Context, plan *graphswap.Plan, problem *graphswap.Problem) (*graphswap.Timeline, error)
}

// SwitchRow is one plan's outcome. ExposedMs is SwitchEndMs less a prefill on the
// long graphs alone: negative where the plan, its loads included, is over sooner
// than that, because short graphs compute the end of a prompt with less padding.
// As it stands it is part of MsPerToken, so that times add up.
type SwitchRow struct {
	Plan        string  `json:"plan"`
	Blocks      int     `json:"blocks"`
	Spare       bool    `json:"spare"`
	PrefillMs   float64 `json:"prefill_ms"`
	SwitchEndMs float64 `json:"switch_end_ms"`
	ExposedMs   float64 `json:"exposed_ms"`
	StallMs     float64 `json:"stall_ms"`
	PeakGB      float64 `json:"peak_gb"`
	MsPerToken  float64 `json:"ms_per_token"`
	NPUBusyMs   float64 `json:"npu_busy_ms"`
	IOBytes     int64   `json:"io_bytes"`
	Reason      string  `json:"reason"`

	// Rows2 is the short graph's, Window the chunks that go through a block at
	// a time, FirstPassMs the end of a first decode pass that follows the loads.
	Rows2       int     `json:"rows_2"`
	Window      int     `json:"window"`
	FirstPassMs float64 `json:"first_pass_ms"`

	Executed *Execution `json:"executed,omitempty"`
	// NotExecuted says why a plan that was to be executed was not.
	NotExecuted string `json:"not_executed,omitempty"`
}

// Execution is what a plan took when it was executed.
type Execution struct {
	PrefillMs   float64 `json:"prefill_ms"`
	SwitchEndMs float64 `json:"switch_end_ms"`
	ExposedMs   float64 `json:"exposed_ms"`
	StallMs     float64 `json:"stall_ms"`
}

// Switch is the comparison.
type Switch struct {
	Device string      `json:"device"`
	Model  string      `json:"model"`
	Kind   string      `json:"kind"` // what the device's profile rests on
	Rows   []SwitchRow `json:"rows"`
}

// onlyShort are the widths at which everything on one short graph is compared.
var onlyShort = []int{8, 16, 32, 64, 128}

// switchJob is one row to come.
type switchJob struct {
	plan   string
	blocks int
	rows2  int
	spare  bool
}

// RunSwitch simulates, and with an executor executes, each plan. A plan whose
// execution fails keeps its row, which says so.
func RunSwitch(ctx context.Context, o SwitchOptions) (*Switch, error) {
	profile, err := graphswap.Device(o.Device)
	if err != nil {
		return nil, err
	}
	cost, err := profile.Cost(o.Model)
	if err != nil {
		return nil, err
	}
	jobs, err := o.jobs()
	if err != nil {
		return nil, err
	}
	s := &Switch{Device: profile.ID, Model: o.Model, Kind: profile.Kind, Rows: []SwitchRow{}}
	for i, job := range jobs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row, err := o.row(ctx, cost, job)
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, *row)
		if o.Progress != nil {
			o.Progress(i+1, len(jobs))
		}
	}
	return s, nil
}

// jobs are the rows in the order of the table.
func (o *SwitchOptions) jobs() (jobs []switchJob, err error) {
	add := func(j switchJob) {
		tooLong := j.blocks > maxExactBlocks && (j.plan == graphswap.PlanExact || j.plan == graphswap.PlanExactInOrder)
		if !tooLong && !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
	}
	for _, blocks := range o.Blocks {
		for _, text := range o.Plans {
			plan, asked, refused := graphswap.CutSpare(text)
			if !slices.Contains(graphswap.PlanNames(), plan) || (asked || refused) && !graphswap.Switches(plan) {
				return nil, fmt.Errorf("%w: plan %.80q: one of %s wanted, +spare or -spare behind those that exchange graphs",
					graphswap.ErrRequest, text, strings.Join(graphswap.PlanNames(), ", "))
			}
			if !asked {
				add(switchJob{plan, blocks, o.Rows2, false})
			}
			if plan == graphswap.PlanG2 && o.Widths {
				for _, rows := range onlyShort {
					if rows < o.Rows1 && rows != o.Rows2 && o.Rows1%rows == 0 {
						add(switchJob{plan, blocks, rows, false})
					}
				}
			}
			if graphswap.Switches(plan) && !refused {
				add(switchJob{plan, blocks, o.Rows2, true})
			}
		}
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%w: nothing to compare: plans and numbers of blocks wanted, of %s and %s %d at most",
			graphswap.ErrRequest, graphswap.PlanExact, graphswap.PlanExactInOrder, maxExactBlocks)
	}
	return jobs, nil
}

// maxExactBlocks bounds what the reference is asked for: its time doubles with
// each block and chunk.
const maxExactBlocks = 4

func (o *SwitchOptions) row(ctx context.Context, cost *graphswap.Cost, job switchJob) (*SwitchRow, error) {
	request := graphswap.Request{
		Blocks: job.blocks, Rows1: o.Rows1, Rows2: job.rows2, Prompt: o.Prompt, AllLogits: o.AllLogits,
		Context: o.Prompt + o.Output, Shared: job.plan == graphswap.PlanShared,
	}
	if o.Drafts {
		request.Heads = slices.Compact([]int{job.rows2, o.Rows1})
	}
	problem, err := cost.Problem(request)
	if err != nil {
		return nil, err
	}
	plan, err := problem.Make(job.plan, job.spare)
	if err != nil {
		return nil, err
	}
	line, err := graphswap.Simulate(plan, problem)
	if err != nil {
		return nil, err
	}
	row := o.describe(cost, job, problem, line)
	if err := line.Check(problem); err != nil {
		if !row.tooLarge(problem, line) {
			return nil, err
		}
		return row, nil
	}
	if o.Execute != nil {
		if row.Executed, err = execute(ctx, o.Execute, plan, problem); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			row.NotExecuted = err.Error()
		}
	}
	return row, nil
}

// tooLarge says that a plan is compared although no session holds it; the
// reason says so too.
func (*SwitchRow) tooLarge(p *graphswap.Problem, line *graphswap.Timeline) bool {
	return line.PeakBytes-p.HostBytes > p.WindowBytes
}

func execute(ctx context.Context, e Executor, plan *graphswap.Plan, problem *graphswap.Problem) (*Execution, error) {
	line, err := e.Execute(ctx, plan, problem)
	if err != nil {
		return nil, err
	}
	if err := line.Check(problem); err != nil {
		return nil, err
	}
	return &Execution{PrefillMs: line.PrefillMs, SwitchEndMs: line.SwitchEndMs, ExposedMs: line.ExposedMs, StallMs: line.StallMs}, nil
}

func (o *SwitchOptions) describe(cost *graphswap.Cost, job switchJob, p *graphswap.Problem, line *graphswap.Timeline) *SwitchRow {
	name := job.plan
	if job.plan == graphswap.PlanG2 && job.rows2 != o.Rows2 {
		name = fmt.Sprintf("%s_%d", job.plan, job.rows2)
	}
	return &SwitchRow{
		Plan: name, Blocks: job.blocks, Spare: job.spare, Rows2: job.rows2, Window: line.Plan.Window,
		PrefillMs: line.PrefillMs, SwitchEndMs: line.SwitchEndMs, ExposedMs: line.ExposedMs, StallMs: line.StallMs,
		PeakGB: float64(line.PeakBytes) * 1e-9, NPUBusyMs: line.NPUBusyMs, IOBytes: line.IOBytes,
		FirstPassMs: line.FirstPassMs, Reason: line.Reason(p),
		MsPerToken: o.perToken(cost, job, line),
	}
}

// perToken is what switching and decoding take per token of output.
func (o *SwitchOptions) perToken(cost *graphswap.Cost, job switchJob, line *graphswap.Timeline) float64 {
	rows, verify := job.rows2, max(o.Verify, job.rows2)
	if job.plan == graphswap.PlanG1 {
		rows, verify = o.Rows1, o.Rows1
	}
	output := float64(max(o.Output, 1))
	return line.ExposedMs/output + cost.Step(job.blocks, rows, verify, float64(o.Prompt)+output/2, o.Accept)/o.Accept
}

// NotExecuted counts the rows whose plans were to be executed and were not.
func (s *Switch) NotExecuted() (n int) {
	for _, r := range s.Rows {
		if r.NotExecuted != "" {
			n++
		}
	}
	return n
}

// Table prints the comparison, with a column of what was executed where plans
// were.
func (s *Switch) Table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s; profile %s\n", s.Device, s.Model, s.Kind)
	executed := slices.ContainsFunc(s.Rows, func(r SwitchRow) bool { return r.Executed != nil || r.NotExecuted != "" })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "blocks\tplan\tspare\tprefill ms\tswitch end\texposed\tstall\tpeak GB\tms/token\t")
	if executed {
		fmt.Fprint(t, "executed\t")
	}
	fmt.Fprintln(t, "  reason") // behind the last tab: to the left
	for _, r := range s.Rows {
		spare := ""
		if r.Spare {
			spare = "yes"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.2f\t%.2f\t", r.Blocks, r.Plan, spare,
			r.PrefillMs, r.SwitchEndMs, r.ExposedMs, r.StallMs, r.PeakGB, r.MsPerToken)
		if executed {
			fmt.Fprintf(t, "%s\t", r.execution())
		}
		fmt.Fprintf(t, "  %s\n", r.Reason)
	}
	return t.Flush()
}

// execution is when an executed plan's prefill and its switching ended.
func (r *SwitchRow) execution() string {
	switch {
	case r.Executed != nil:
		return fmt.Sprintf("%.0f / %.0f", r.Executed.PrefillMs, r.Executed.SwitchEndMs)
	case r.NotExecuted != "":
		return "failed"
	}
	return ""
}
