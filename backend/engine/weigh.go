package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// scale weighs graphs.
type scale struct {
	dev     backend.Device
	loader  *loader
	repeats int
	views   []model.View
	result  *Measurements
	virtual bool
}

// subject is a graph with memory to run on.
type subject struct {
	image    *image
	buffer   backend.Buffer
	ports    map[string]*region
	bindings []backend.Binding
}

func (s *subject) close() error {
	var err error
	if s.buffer != nil {
		err = s.buffer.Close()
	}
	return errors.Join(s.image.close(), err)
}

// open loads a graph and gives it memory: zeros, and masks that show context
// tokens.
func (s *scale) open(ctx context.Context, g *backend.Graph, context int) (_ *subject, err error) {
	i, err := s.loader.loadImage(ctx, []*backend.Graph{g})
	if err != nil {
		return nil, err
	}
	sub := &subject{image: i, ports: make(map[string]*region)}
	defer func() {
		if err != nil {
			err = errors.Join(err, sub.close())
		}
	}()
	var a arena
	signature := i.graphs[0].signature
	for _, p := range slices.Concat(signature.Inputs, signature.Outputs) {
		sub.ports[p.Name] = &region{}
		a.place(sub.ports[p.Name], p.SizeBytes())
	}
	if sub.buffer, err = a.allocate(s.dev); err != nil {
		return nil, err
	}
	sub.bindings, err = bind(g.Name, signature, sub.ports)
	s.show(sub, context)
	return sub, err
}

// show writes masks: every row sees the first tokens and itself, and the middle
// row is the context'th token.
func (s *scale) show(sub *subject, context int) {
	for _, p := range sub.image.graphs[0].signature.Inputs {
		if !slices.ContainsFunc(s.views, func(v model.View) bool { return v.Mask == p.Name }) {
			continue
		}
		n, columns, element := p.Shape[len(p.Shape)-2], p.Shape[len(p.Shape)-1], p.Type.Size()
		rows := rowsOf(sub.image.sources[0])
		past := min(max(0, context-rows/2), columns-rows)
		hidden := hiddenRow(columns, p.Type)
		for i := range n {
			row := sub.ports[p.Name].all()[i*columns*element : (i+1)*columns*element]
			copy(row, hidden)
			clear(row[:past*element])
			own := columns - rows + i%rows
			clear(row[own*element : (own+1)*element])
		}
	}
}

// rowsOf is the width of a graph: its first input is x [rows,hidden].
func rowsOf(g *backend.Graph) int { return g.Signature().Inputs[0].Shape[0] }

// weigh measures one graph and frees it.
func (s *scale) weigh(ctx context.Context, g *backend.Graph, block int) (m Measurement, err error) {
	m = Measurement{Graph: g.Name, Block: block, Rows: rowsOf(g)}
	sub, err := s.open(ctx, g, s.result.Context)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, sub.close()) }()
	m.SizeBytes = sub.image.program.SizeBytes()
	if m.Load, err = s.loads(ctx, sub); err != nil {
		return m, err
	}
	if m.Run, m.Overruns, err = s.runs(ctx, sub); err != nil {
		return m, err
	}
	s.show(sub, 0)
	m.Short, _, err = s.runs(ctx, sub)
	return m, err
}

// cost prefers the device's account where that is of another time than ours.
func (s *scale) cost(own time.Duration, told func(backend.Timed) backend.Cost, p backend.Program) (time.Duration, bool) {
	t, ok := p.(backend.Timed)
	if !ok {
		return own, false
	}
	c := told(t)
	if c.Paced == "" {
		return own, false
	}
	s.result.Paced, s.virtual = c.Paced, c.Virtual
	return c.Took, c.Overrun > c.Took/100
}

// loads frees and loads the graph's program again and again.
func (s *scale) loads(ctx context.Context, sub *subject) (time.Duration, error) {
	var times []time.Duration
	for range s.repeats {
		if err := sub.image.program.Close(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := sub.image.reopen(ctx, s.loader); err != nil {
			return 0, err
		}
		took, _ := s.cost(time.Since(began), backend.Timed.LoadCost, sub.image.program)
		times = append(times, took)
	}
	return median(times), nil
}

func (s *scale) runs(ctx context.Context, sub *subject) (_ time.Duration, overruns int, err error) {
	var times []time.Duration
	for i := range warmUps + s.repeats {
		took, over, err := s.run(ctx, sub)
		if err != nil {
			return 0, 0, err
		}
		if i >= warmUps {
			times = append(times, took)
			if over {
				overruns++
			}
		}
	}
	return median(times), overruns, nil
}

func (s *scale) run(ctx context.Context, sub *subject) (time.Duration, bool, error) {
	l := sub.image.graphs[0]
	began := time.Now()
	if err := sub.image.program.Run(ctx, l.graph, sub.bindings); err != nil {
		return 0, false, err
	}
	took, over := s.cost(time.Since(began), backend.Timed.RunCost, sub.image.program)
	return took, over, nil
}

// beside compares runs of one graph while another one is loaded to runs alone.
func (s *scale) beside(ctx context.Context, runs, loads *backend.Graph) (_ float64, err error) {
	if s.virtual { // its calls do not overlap
		return 0, nil
	}
	s = s.quiet()
	sub, err := s.open(ctx, runs, s.result.Context)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sub.close()) }()
	other, err := s.open(ctx, loads, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	alone, _, err := s.runs(ctx, sub)
	if err != nil {
		return 0, err
	}
	done, second := make(chan error, 1), s.quiet()
	go func() {
		_, err := second.loads(ctx, other)
		done <- err
	}()
	var during []time.Duration
	for {
		took, _, runErr := s.run(ctx, sub)
		select {
		case err := <-done:
			// The last run may have begun behind the loads' end: it does not count.
			if err != nil || runErr != nil || len(during) == 0 {
				return 0, errors.Join(err, runErr)
			}
			return float64(median(during)) / float64(alone), nil
		default:
			during = append(during, took)
		}
		if runErr != nil {
			return 0, errors.Join(runErr, <-done)
		}
	}
}

// quiet is a scale whose notes nobody else reads.
func (s *scale) quiet() *scale {
	q := *s
	q.loader, q.result = s.loader.quiet(), &Measurements{Context: s.result.Context}
	return &q
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
