package rule

import (
	"math"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// reply is a Response.
type reply struct {
	attributes
	status     int64
	unanswered bool
	header     string // "": there is none
}

func (r *reply) Header(string) (string, bool) { return r.header, r.header != "" }
func (r *reply) Status() int64                { return r.status }
func (r *reply) Unanswered() bool             { return r.unanswered }

var (
	keeps    = Worth{Cost: Missing}
	gives    = Worth{Cost: 0, All: true}
	releases = Worth{Cost: 0}
)

func costs(n int64) Worth { return Worth{Cost: n} }

// measured is a response of which one text evaluates to a number.
func measured(text string, f float64) *reply {
	return &reply{status: 200, attributes: attributes{text: []byte(testenv.Doubles(f))}}
}

const (
	byStatus      = `"status": ["401", "5xx"]`
	expr          = `"expr": "response.code == 401"`
	exprText      = "{true: true, false: false}[response.code == 401\n]"
	byHeader      = `"cost": {"header": "x-cost", "max": 100}`
	byBoth        = `"expr": "response.headers['a'] == 'b'", "cost": {"expr": "response.headers['c']", "max": 100}`
	keepsText     = "{true: true, false: false}[response.headers['a'] == 'b'\n]"
	costText      = "double(response.headers['c']\n)"
	perKilobyte   = `"cost": {"header": "x-cost", "per": 1024, "max": 100}`
	byProperty    = `"cost": {"property": ["response", "total_size"], "per": 1024, "max": 100}`
	sizeText      = "double(response.total_size\n)"
	byTokens      = `"cost": {"metadata": ["a", "b"], "max": 100}`
	statusAndCost = byStatus + `, ` + byHeader

	release = `, "missing": "release"`
	atCost  = `, "missing": {"cost": 7000}`
)

var tokensText = "double(" + amountText(&config.Amount{Metadata: []string{"a", "b"}}) + "\n)"

// worths are responses, and the worth of a charge after each.
var worths = []struct {
	name   string
	settle string
	reply  *reply // nil: the client left before response headers
	want   Worth
}{
	{"a status of the list keeps", byStatus, &reply{status: 401}, keeps},
	{"one of a range", byStatus, &reply{status: 599}, keeps},
	{"any other gives back", byStatus, &reply{status: 200}, gives},
	{"beyond the range", byStatus, &reply{status: 499}, gives},
	{"none that can be read", byStatus, &reply{}, gives},
	{"no upstream answered", byStatus, &reply{status: 503, unanswered: true}, gives},
	{"no response", byStatus, nil, keeps},
	{"no response, to release", byStatus + release, nil, keeps},
	{"the status is there, to release", byStatus + release, &reply{status: 401}, keeps},

	{"an expression that holds", expr, &reply{attributes: attributes{exprText: []byte("\x01")}}, keeps},
	{"one that does not", expr, &reply{attributes: attributes{exprText: []byte("\x00")}}, gives},
	{"one without a value", expr, &reply{}, keeps},
	{"one without a value, to release", expr + release, &reply{}, gives},
	{"no bool", expr, &reply{attributes: attributes{exprText: []byte(testenv.Doubles(1))}}, keeps},
	{"an expression, no response", expr, nil, keeps},
	{"an expression, no response, to release", expr + release, nil, keeps},

	{"a header", byHeader, &reply{header: "17"}, costs(17)},
	{"with spaces", byHeader, &reply{header: " 17\t"}, costs(17)},
	{"nothing", byHeader, &reply{header: "0"}, costs(0)},
	{"more than max", byHeader, &reply{header: "101"}, costs(100)},
	{"far more", byHeader, &reply{header: "99999999999999999999999999"}, costs(100)},
	{"negative", byHeader, &reply{header: "-1"}, keeps},
	{"no number", byHeader, &reply{header: "many"}, keeps},
	{"no number, to release", byHeader + release, &reply{header: "many"}, releases},
	{"absent", byHeader, &reply{}, keeps},
	{"absent, to release", byHeader + release, &reply{}, releases},
	{"a header, no response", byHeader, nil, keeps},
	{"a header, no response, to release", byHeader + release, nil, keeps},
	{"a header, no response, at a cost", byHeader + atCost, nil, keeps},
	{"absent, at a cost", byHeader + atCost, &reply{}, costs(7000)},
	{"there, at a cost", byHeader + atCost, &reply{header: "17"}, costs(17)},
	{"divided, at a cost", perKilobyte + atCost, &reply{}, costs(7000)},
	{"no attribute, at a cost", byProperty + atCost, &reply{}, costs(7000)},
	{"kept, at a cost", statusAndCost + atCost, &reply{status: 401}, costs(7000)},
	{"given back, at a cost", statusAndCost + atCost, &reply{status: 200}, gives},
	{"divided, exactly", perKilobyte, &reply{header: "2048"}, costs(2)},
	{"divided and rounded up", perKilobyte, &reply{header: "2049"}, costs(3)},
	{"divided, little", perKilobyte, &reply{header: "1"}, costs(1)},
	{"divided, nothing", perKilobyte, &reply{header: "0"}, costs(0)},
	{"divided, more than max", perKilobyte, &reply{header: "104857600"}, costs(100)},
	{"divided, at max", perKilobyte, &reply{header: "102400"}, costs(100)},

	{"an attribute", byProperty, measured(sizeText, 5000), costs(5)},
	{"a fraction", byProperty, measured(sizeText, 0.5), costs(1)},
	{"an attribute, more than max", byProperty, measured(sizeText, 1e300), costs(100)},
	{"no attribute", byProperty, &reply{}, keeps},
	{"metadata", byTokens, measured(tokensText, 29), costs(29)},
	{"negative metadata", byTokens, measured(tokensText, -1), keeps},
	{"NaN", byTokens, measured(tokensText, math.NaN()), keeps},
	{"infinity", byTokens, measured(tokensText, math.Inf(1)), keeps},
	{"infinity, to release", byTokens + release, measured(tokensText, math.Inf(1)), releases},

	{"kept, with a cost", statusAndCost, &reply{status: 401, header: "3"}, costs(3)},
	{"kept, without a cost", statusAndCost, &reply{status: 401}, keeps},
	{"given back, with a cost", statusAndCost, &reply{status: 200, header: "3"}, gives},
	{"both, no response", statusAndCost, nil, keeps},
	{"both, no response, to release", statusAndCost + release, nil, keeps},
	{"kept, without a cost, to release", statusAndCost + release, &reply{status: 401}, releases},
}

// TestWorthOverHTTP3: when a response over HTTP/3 has ended, its headers are gone. What read them had its value when
// they passed; what reads anything else has it at the end.
func TestWorthOverHTTP3(t *testing.T) {
	t.Parallel()
	kept := attributes{keepsText: []byte("\x01"), costText: []byte(testenv.Doubles(7))}
	given := attributes{keepsText: []byte("\x00")}
	for _, tc := range []struct {
		name, settle     string
		atHeaders, atEnd *reply
		want             Worth
	}{
		{"kept by headers", byBoth, &reply{status: 200, attributes: kept}, &reply{}, costs(7)},
		{"given back by headers", byBoth, &reply{status: 200, attributes: given}, &reply{}, gives},
		{"headers without a value", byBoth + release, &reply{status: 200}, &reply{}, gives},
		{
			"headers that are there at the end", byBoth, &reply{status: 200, attributes: kept},
			&reply{status: 200, attributes: given}, gives,
		},
		{
			"metadata at the end", byTokens, &reply{status: 200},
			&reply{attributes: attributes{tokensText: []byte(testenv.Doubles(29))}}, costs(29),
		},
	} {
		s := compile(t, `"settle": {`+tc.settle+`}`).Rules[0].Settle
		testenv.Same(t, tc.name, s.Worth(s.AtHeaders(tc.atHeaders), tc.atEnd), tc.want)
	}
}

func TestWorth(t *testing.T) {
	t.Parallel()
	for _, tc := range worths {
		s := compile(t, `"settle": {`+tc.settle+`}`).Rules[0].Settle
		var h Heard
		if tc.reply != nil {
			h = s.AtHeaders(tc.reply)
		}
		testenv.Same(t, tc.name, s.Worth(h, tc.reply), tc.want)
	}
}
