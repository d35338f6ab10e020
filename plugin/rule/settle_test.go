package rule

import (
	"math"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// reply is a Response. values are by the text that is evaluated.
type reply struct {
	status     int64
	unanswered bool
	header     string // "": there is none
	values     map[string]string
}

func (r *reply) Header(string) (string, bool) { return r.header, r.header != "" }
func (r *reply) Status() int64                { return r.status }
func (r *reply) Unanswered() bool             { return r.unanswered }

func (r *reply) Evaluate(token uint32) ([]byte, bool) {
	value, ok := r.values[textOf(token)]
	return []byte(value), ok
}

func TestWorth(t *testing.T) {
	t.Parallel()
	keeps := Worth{Cost: Missing}
	gives := Worth{Cost: 0, All: true}
	releases := Worth{Cost: 0}
	costs := func(n int64) Worth { return Worth{Cost: n} }

	statuses := config.Settle{Status: []config.StatusRange{{First: 401, Last: 401}, {First: 500, Last: 599}}}
	expr := config.Settle{Expr: "response.code == 401"}
	exprText := eitherText("response.code == 401")
	header := config.Settle{Cost: &config.SettleCost{Amount: config.Amount{Header: "x-cost", Max: 100}, Per: 1}}
	per := config.Settle{Cost: &config.SettleCost{Amount: config.Amount{Header: "x-cost", Max: 100}, Per: 1024}}
	property := config.Settle{Cost: &config.SettleCost{Amount: config.Amount{
		Property: []string{"response", "total_size"},
		Max:      100,
	}, Per: 1024}}
	propertyText := "double(response.total_size\n)"
	tokens := config.Settle{Cost: &config.SettleCost{
		Amount: config.Amount{Metadata: []string{"a", "b"}, Max: 100},
		Per:    1,
	}}
	tokensText := "double(" + metadataText([]string{"a", "b"}) + "\n)"
	both := config.Settle{Status: statuses.Status, Cost: header.Cost}
	release := func(s config.Settle) config.Settle { s.Release = true; return s }
	value := func(text string, f float64) *reply {
		return &reply{status: 200, values: map[string]string{text: double(f)}}
	}

	for _, tc := range []struct {
		name   string
		settle config.Settle
		reply  *reply // nil: the client left before response headers
		want   Worth
	}{
		{"a status of the list keeps", statuses, &reply{status: 401}, keeps},
		{"one of a range", statuses, &reply{status: 599}, keeps},
		{"any other gives back", statuses, &reply{status: 200}, gives},
		{"beyond the range", statuses, &reply{status: 499}, gives},
		{"none that can be read", statuses, &reply{}, gives},
		{"no upstream answered", statuses, &reply{status: 503, unanswered: true}, gives},
		{"no response", statuses, nil, keeps},
		{"no response, to release", release(statuses), nil, gives},
		{"the status is there, to release", release(statuses), &reply{status: 401}, keeps},

		{"an expression that holds", expr, &reply{values: map[string]string{exprText: "\x01"}}, keeps},
		{"one that does not", expr, &reply{values: map[string]string{exprText: "\x00"}}, gives},
		{"one without a value", expr, &reply{}, keeps},
		{"one without a value, to release", release(expr), &reply{}, gives},
		{"no bool", expr, &reply{values: map[string]string{exprText: double(1)}}, keeps},
		{"an expression, no response", expr, nil, keeps},
		{"an expression, no response, to release", release(expr), nil, gives},

		{"a header", header, &reply{header: "17"}, costs(17)},
		{"with spaces", header, &reply{header: " 17\t"}, costs(17)},
		{"nothing", header, &reply{header: "0"}, costs(0)},
		{"more than max", header, &reply{header: "101"}, costs(100)},
		{"far more", header, &reply{header: "99999999999999999999999999"}, costs(100)},
		{"negative", header, &reply{header: "-1"}, keeps},
		{"no number", header, &reply{header: "many"}, keeps},
		{"no number, to release", release(header), &reply{header: "many"}, releases},
		{"absent", header, &reply{}, keeps},
		{"absent, to release", release(header), &reply{}, releases},
		{"a header, no response", header, nil, keeps},
		{"a header, no response, to release", release(header), nil, releases},
		{"divided, exactly", per, &reply{header: "2048"}, costs(2)},
		{"divided and rounded up", per, &reply{header: "2049"}, costs(3)},
		{"divided, little", per, &reply{header: "1"}, costs(1)},
		{"divided, nothing", per, &reply{header: "0"}, costs(0)},
		{"divided, more than max", per, &reply{header: "104857600"}, costs(100)},
		{"divided, at max", per, &reply{header: "102400"}, costs(100)},

		{"an attribute", property, value(propertyText, 5000), costs(5)},
		{"a fraction", property, value(propertyText, 0.5), costs(1)},
		{"an attribute, more than max", property, value(propertyText, 1e300), costs(100)},
		{"no attribute", property, &reply{}, keeps},
		{"metadata", tokens, value(tokensText, 29), costs(29)},
		{"negative metadata", tokens, value(tokensText, -1), keeps},
		{"NaN", tokens, value(tokensText, math.NaN()), keeps},
		{"infinity", tokens, value(tokensText, math.Inf(1)), keeps},
		{"infinity, to release", release(tokens), value(tokensText, math.Inf(1)), releases},

		{"kept, with a cost", both, &reply{status: 401, header: "3"}, costs(3)},
		{"kept, without a cost", both, &reply{status: 401}, keeps},
		{"given back, with a cost", both, &reply{status: 200, header: "3"}, gives},
		{"both, no response", both, nil, keeps},
		{"both, no response, to release", release(both), nil, gives},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := counted("r")
			r.Settle = &tc.settle
			s := compile(t, r).Rules[0].Settle
			var h Heard
			if tc.reply != nil {
				h = s.AtHeaders(tc.reply)
			}
			if got := s.Worth(h, tc.reply); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
