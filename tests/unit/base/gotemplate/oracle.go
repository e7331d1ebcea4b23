// Renders templates with Go's own text/template: reads a JSON list of them, writes a JSON list of what came of each.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"text/template"
	"time"
)

type Time struct{ time.Time }

type ObjectMeta struct {
	Name              string
	Labels            map[string]string
	CreationTimestamp Time
	DeletionTimestamp *Time
}

type Taint struct {
	Key, Value, Effect string
}

type NodeSpec struct {
	Unschedulable bool
	Taints        []Taint
}

type NodeStatus struct {
	KubeletVersion string
}

type Node struct {
	ObjectMeta
	Spec   NodeSpec
	Status NodeStatus
}

type Parameters struct {
	Node           *Node
	State          string
	Profile        string
	InMaintenance  bool
	LastTransition time.Time
	LogDetails     bool
	M              map[string]any
	L              []any
	S              []string
	N              int
	F              float64
	Nothing        any
	None           []any
}

type answer struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

func data() Parameters {
	at := time.Date(2026, 3, 1, 10, 4, 5, 123456789, time.UTC)
	created := time.Date(2025, 12, 31, 23, 59, 58, 0, time.FixedZone("", 2*3600))
	return Parameters{
		Node: &Node{
			ObjectMeta: ObjectMeta{
				Name:              "n1",
				Labels:            map[string]string{"zone": "a", "empty": "", "odd/key": "x"},
				CreationTimestamp: Time{created},
			},
			Spec:   NodeSpec{Unschedulable: true, Taints: []Taint{{"k", "v", "NoSchedule"}, {"k2", "", "NoExecute"}}},
			Status: NodeStatus{KubeletVersion: "v1.35.0"},
		},
		State: "in-maintenance", Profile: "kernel", InMaintenance: true, LastTransition: at,
		M: map[string]any{"a": 1, "b": "two", "c": 2.5, "d": nil, "e": []any{1, "x"}, "f": map[string]any{"g": true}, "é": "ü"},
		L: []any{1, "two", 3.0, nil, false}, S: []string{"x", "y", "z"}, N: 42, F: 1234567.5,
	}
}

func render(text string) (got answer) {
	made, err := template.New("").Parse(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	var out bytes.Buffer
	if err := made.Execute(&out, data()); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: out.String()}
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	answers := []answer{}
	for _, text := range texts {
		answers = append(answers, render(text))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answers); err != nil {
		panic(err)
	}
}
