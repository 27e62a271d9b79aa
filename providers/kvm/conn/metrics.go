package conn

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proxyard/proxyard/providers"
)

// Metrics counts what happens on the connections of all hosts. It is a prometheus.Collector that whoever puts the program
// together registers. A nil *Metrics counts nothing.
type Metrics struct {
	up       *prometheus.GaugeVec
	connects *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	flying   *prometheus.GaugeVec
	errors   *prometheus.CounterVec

	mu sync.Mutex
	// hosts counts the Hosts of each name: while credentials rotate there are two.
	hosts map[string]int
}

// NewMetrics makes the metrics; it registers nothing.
func NewMetrics() *Metrics {
	name := func(n string) string { return prometheus.BuildFQName("proxyard", "libvirt", n) }
	return &Metrics{
		hosts: map[string]int{},
		up:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("connected"), Help: "1 while the host answers, else 0."}, []string{"hypervisor"}),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("connects_total"),
			Help: "Attempts to open the main connection, by result: ok, or the reason of the failure.",
		}, []string{"hypervisor", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    name("rpc_duration_seconds"),
			Help:    "Time of a procedure call, the wait for a slot included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"hypervisor", "procedure"}),
		flying: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("calls_in_flight"), Help: "Calls that wait for the host, by connection."}, []string{"hypervisor", "connection"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("errors_total"), Help: "Failed calls by kind of error."}, []string{"hypervisor", "kind"}),
	}
}

func (m *Metrics) vecs() []interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
} {
	return []interface {
		prometheus.Collector
		DeletePartialMatch(prometheus.Labels) int
	}{m.up, m.connects, m.latency, m.flying, m.errors}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vecs() {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vecs() {
		v.Collect(ch)
	}
}

func (m *Metrics) connect(host string, err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = providers.OutcomeOf(err).Reason
	} else {
		m.up.WithLabelValues(host).Set(1)
	}
	m.connects.WithLabelValues(host, result).Inc()
}

func (m *Metrics) disconnected(host string) {
	if m != nil {
		m.up.WithLabelValues(host).Set(0)
	}
}

// answered counts calls that were sent, so that a host that is down does not look fast.
func (m *Metrics) answered(host, procedure string, took time.Duration) {
	if m != nil {
		m.latency.WithLabelValues(host, procedure).Observe(took.Seconds())
	}
}

func (m *Metrics) failed(host string, err error) {
	if m != nil && err != nil {
		m.errors.WithLabelValues(host, providers.KindOf(err).Error()).Inc()
	}
}

func (m *Metrics) inFlight(host, connection string, n float64) {
	if m != nil {
		m.flying.WithLabelValues(host, connection).Add(n)
	}
}

// retain says that there is a Host of that name.
func (m *Metrics) retain(host string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[host]++
}

// release undoes one retain; with the last one it drops the host's series.
func (m *Metrics) release(host string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[host]--
	if m.hosts[host] > 0 {
		return
	}
	delete(m.hosts, host)
	for _, v := range m.vecs() {
		v.DeletePartialMatch(prometheus.Labels{"hypervisor": host})
	}
}
