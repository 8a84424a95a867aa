// Program quantity prints what resource.Quantity of k8s.io/apimachinery makes of amounts: the vectors that
// portcullis's own arithmetic is compared with.
//
//	cd tests/testbed/quantity && go run . >../../it/quantity.tsv
package main

import (
	"fmt"
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The largest power of ten that decimal amounts are taken to: from 10^21 on, Kubernetes prints them without suffix.
const largest = "999E"

func main() {
	texts := fixed()
	source := rand.New(rand.NewSource(1))
	for range 600 {
		texts = append(texts, random(source))
	}
	fmt.Println("# parse\ttext\tcanonical form\tformat, or\terror")
	var valid []string
	for _, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Printf("parse\t%s\terror\t\n", text)
			continue
		}
		if beyond(quantity) {
			continue
		}
		valid = append(valid, text)
		fmt.Printf("parse\t%s\t%s\t%s\n", text, canonical(quantity), quantity.Format)
	}
	fmt.Println("# add\ta\tb\tsum\tformat of the sum\ta compared with b")
	for i := range valid {
		a, b := valid[i], valid[source.Intn(len(valid))]
		left, right := resource.MustParse(a), resource.MustParse(b)
		order := left.Cmp(right)
		left.Add(right)
		if !beyond(left) {
			fmt.Printf("add\t%s\t%s\t%s\t%s\t%d\n", a, b, canonical(left), left.Format, order)
		}
	}
}

func canonical(quantity resource.Quantity) string {
	number, suffix := quantity.CanonicalizeBytes(make([]byte, 0, 64))
	return string(number) + string(suffix)
}

func beyond(quantity resource.Quantity) bool {
	limit := resource.MustParse(largest)
	negative := limit.DeepCopy()
	negative.Neg()
	return quantity.Cmp(limit) > 0 || quantity.Cmp(negative) < 0
}

func fixed() []string {
	return strings.Fields(`0 0m 0Gi 0e3 -0 +0 1 -1 +1 01 1. .5 . + - 1.5 1.500 0.5 0.05Ki 0.5Ki 1.5Ki 1.5Gi 2.5Mi 1023 1024 1Ki 1023Ki
		1024Ki 1025Ki 2048Mi 100Ki 1000m 1500m 999m 1n 0.1n 0.9n 1.1n 1u 1m 1k 1M 1G 1T 1P 1E 7E 9E 1Ei 7Ei 8Ei 9Ei -8Ei -9Ei
		9223372036854775807 9223372036854775808 9223372036854775807Ki 18446744073709551616 0.000000001 0.0000000001
		1.0000000001 123456789.123456789 123456789.1234567891 1e3 1E3 1e-3 1e+3 1e0 12e6 1.2e2 1e-9 1e-10 1e-30 5e18 100e15
		0.1Ki 0.0001Ki -0.1Ki 0.00000000000000000001Ei 1.000000000000000000001Ei 3.14159265358979323846Ti
		Ki m E e 1e 1ee3 1e3e 1mi 1Kib 1.5.0Gi 1..5 -1Gi +1Gi --1 1- 1+ 1e- 1m3 1Ki3 0x10 1_000 abc ½ 1K 1KI 1ki 1e1.5 1000000000000000000000n`)
}

func random(source *rand.Rand) string {
	digits := func(most int) string {
		text := ""
		for range source.Intn(most + 1) {
			text += string(rune('0' + source.Intn(10)))
		}
		return text
	}
	text := []string{"", "", "", "-", "+"}[source.Intn(5)] + fmt.Sprint(source.Intn(10)) + digits(12)
	if source.Intn(2) == 0 {
		text += "." + digits(14)
	}
	suffixes := strings.Split(",n,u,m,k,M,G,T,Ki,Mi,Gi,Ti,Pi,Ei,e3,e-5,E4,e+6,e-12", ",")
	return text + suffixes[source.Intn(len(suffixes))]
}
