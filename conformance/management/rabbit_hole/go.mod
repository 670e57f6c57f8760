module scenarios

go 1.18

require github.com/michaelklishin/rabbit-hole/v2 v2.12.0
