// Dining cryptographers, three of them, interleaved: who pays? Each step one enabled action, uniformly.
// What the announcements tell: veil measure dining.pm --set horizon=6
dtmc

global secret pay : [0..3];  // 0: the master
global coin1 : [0..2];  // 0: not flipped yet
global coin2 : [0..2];
global coin3 : [0..2];

const int me1 = 1;
const int me2 = 2;
const int me3 = 3;

module cryptographer1
  observable says1 : [0..2];  // 0: nothing yet, 1: agree, 2: differ
  [] coin1=0 -> 0.5 : (coin1'=1) + 0.5 : (coin1'=2);
  [] says1=0 & coin1>0 & coin2>0 & ((coin1=coin2) = (pay!=me1)) -> (says1'=1);
  [] says1=0 & coin1>0 & coin2>0 & ((coin1=coin2) != (pay!=me1)) -> (says1'=2);
  [done] says1>0 -> true;
endmodule

module cryptographer2 = cryptographer1 [ says1=says2, coin1=coin2, coin2=coin3, me1=me2 ] endmodule
module cryptographer3 = cryptographer1 [ says1=says3, coin1=coin3, coin2=coin1, me1=me3 ] endmodule

init coin1=0 & coin2=0 & coin3=0 & says1=0 & says2=0 & says3=0 endinit
