package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFlags(t *testing.T) {
	pod := func(name string) string { return map[string]string{"POD_NAMESPACE": "ops"}[name] }
	nowhere := func(string) string { return "" }
	for name, c := range map[string]struct {
		args      []string
		env       func(string) string
		namespace string
		err       string
	}{
		"defaults":              {nil, nowhere, defaultNamespace, ""},
		"a pod's own namespace": {nil, pod, "ops", ""},
		"the flag wins":         {[]string{"--namespace=mine"}, pod, "mine", ""},
		"probe URL of no kind":  {[]string{"--probe-url=probe.example"}, nowhere, "", "--probe-url"},
		"unknown log format":    {[]string{"--log-format=xml"}, nowhere, "", "json or console"},
		"unknown log level":     {[]string{"--log-level=loud"}, nowhere, "", "log-level"},
		"too busy":              {[]string{"--poll-interval=1ms"}, nowhere, "", "at least 1s"},
		"no workers":            {[]string{"--max-concurrent-reconciles=0"}, nowhere, "", "at least 1"},
		"an argument":           {[]string{"start"}, nowhere, "", `unexpected argument "start"`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseFlags(c.args, c.env)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.namespace, o.namespace)
		})
	}
}
