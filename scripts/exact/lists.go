package main

import "strings"

// blocks are ranges of code points, about one a script.
var blocks = [][2]rune{{0x20, 0x7e}, {0, 0x1f}, {0x80, 0xff}, {0x100, 0x24f}, {0x250, 0x36f}, {0x370, 0x5ff}, {0x600, 0x8ff}, {0x900, 0xdff}, {0xe00, 0x10ff},
	{0x1100, 0x1fff}, {0x2000, 0x206f}, {0x2070, 0x2bff}, {0x2c00, 0x2fff}, {0x3000, 0x33ff}, {0x3400, 0x9fff}, {0xa000, 0xd7ff}, {0xe000, 0xfdff},
	{0xfe00, 0xffff}, {0x10000, 0x1ffff}, {0x20000, 0x323af}, {0xe0000, 0xe01ef}}

var edges = []string{" ", "  ", "   ", "\n", "\r\n", "\r", "\t", "\n\n", "\n\n\n", " \n", " \n ", "\n \n", "a", "A", "1", "12", "123", "1234", "12345678901234567890",
	"!", "...", "a b", "a  b", "a   b", " a", "  a", "a ", "a  ", "\ta", "a\t", "\n a", "a\n", "a \n", "a \n b", "\u00a0", "a\u00a0b", "\u3000", "a\u3000\u3000b",
	"\u200b", "a\u200bb", "\ufeff", "\ufeffa", "\u2028", "\u2029", "a\u0085b", "\u0085", "\u1680", "\u180e", "\u202f", "\u205f", "\x0b", "\x0c", "a\x0bb\x0cc",
	"\x1c\x1d\x1e\x1f", "\x00", "a\x00b", "\x7f", "\u0080\u0081", "\u017f", "\u212a", "\u212b", "ß", "ẞ", "İ", "ı", "ﬁ", "ﬀ", "ǅ", "ᾼ", "Ⅷ", "ⅷ", "Ⓐ", "ⓐ", "ʰ",
	"ª", "º", "𝐀𝐁", "𝔘𝔫𝔦", "Straße", "ΑΣ", "ας", "ǄǅǆǇǈǉ", "²³", "½", "¼ cup", "٣٤٥", "१२३४", "𝟘𝟙𝟚", "①②③", "〇一二", "1,234,567.89", "0x1F", "1e-10",
	"3.14159265358979", "2026-07-29T12:34:56Z", "1 2 3", "1\n2", "12a34", "a1b2c3", "٠١٢٣٤٥٦٧٨٩٠١٢٣", "HTTPServer", "camelCaseWord", "XMLHttpRequest2",
	"snake_case_name", "A.B.C.", "//comment", "/*x*/", "</div>\n", "=>\r\n\r\n", "!!\n\n\n", " !", " !\n a", "a/b/c", "?/\n/", "▁", "▁▁", "a▁b", " ▁ ", "<0x0A>",
	"<unk>", "\ufffd", "\uffff\ufffe\ufdd0", "\ue000\uf8ff\U000f0000", "葛\U000e0100葛", "\U000e0041\U000e007f"}

var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'LL", "'D", "'\u017f", "'\u017fs", "I'\u212a", "it's", "IT'S", "it’s",
	"we'll've", "'tis", "don't", "DON'T", "rock'n'roll", "'", "''", "'''", "s'", "'re're", "'sss", "x'sx", "  's", " 't", "\n's", "_'s", "'st", "'LLm", "'lL", "'r", "'v", "'l"}

var scripts = []string{"人工智能正在改变世界，我们需要更好的推理系统。今天天气很好！价格是￥1,234元", "こんにちは世界。カタカナとひらがな、漢字が混ざった文章です。ｶﾀｶﾅ", "안녕하세요 세계! 한국어 문장입니다. 가나다라",
	"مرحبا بالعالم، كيف حالك؟ السَّلَامُ عَلَيْكُمْ", "שלום עולם, שָׁלוֹם", "नमस्ते दुनिया, आप कैसे हैं? क्षत्रिय", "สวัสดีชาวโลก นี่คือภาษาไทย", "Привет, мир! Ёлка и ещё", "Γειά σου Κόσμε",
	"வணக்கம் உலகம்", "ওহে বিশ্ব", "హలో ప్రపంచం", "မင်္ဂလာပါ", "សួស្តី\u200bពិភពលោក", "გამარჯობა ᲒᲐᲛᲐᲠᲯᲝᲑᲐ", "ሰላም ልዑል", "Xin chào thế giới, tiếng Việt có dấu",
	"L'été, où êtes-vous? C'est l'œuvre d'Hélène", "Größe Übermäßig", "İstanbul ılık ığdır", "Zażółć gęślą jaźń", "Z̸̡͍͙a̵̢̛l̶̰̈g̷̣̐o̵̘͝", "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α∧¬β → ∑ᵢ xᵢ²",
	"┌──┐│  │└──┘ ▁▂▃▄ ⣿⠿", "Ｈｅｌｌｏ　Ｗｏｒｌｄ１２３", "ᠮᠣᠩᠭᠣᠯ", "བོད་སྐད་", "ᏣᎳᎩ ꮳꮃꭹ", "𐌲𐌿𐍄𐌹𐍃𐌺", "𒀀𒁀", "𓀀𓁐", "𐀀𐀁", "𠀀𪜀𫝀𰀀𱍊", "𐐔𐐯𐑅", "𞤀𞤁𞤢",
	"\U000323af\U0002ebf0\U00011f04", "\u1c89\u1c8a\U00010d40\U00010d50\ua7cb\ua7da\U000105c0", "\U00010940\U00011db0\U0001e6c0\u1acf\U0001cc00"}

var combining = []string{"e\u0301", "a\u0323\u0307", "a\u0307\u0323", "\u1100\u1161\u11a8", "\u1100\u1161", "\u11a8", "\u1161", "\u0301", "\u0301a", "\u0344", "\u0958", "\u2adc", "\ufb1d",
	"\uf900", "\u0f73", "q\u0307\u0323 \u0323\u0307", "ｶﾞ", "\u0b92\u0bd7", "각", "A\u030a", "\u1e9b\u0323", "\U0001d15e", "\U0002f800", "\u0334", "\u0345", "\u3099", "\u093c", "\u094d",
	"\u05b0", "\u064b", "\u0e38", "\u0327", "\u031b", "\u0308", "\u0338", "\u0653", "\u09be", "\u0dca", "\u1b35", "\U000110ba", "\U000105d2\u0307", "\U00011382\U000113c9", "\u1ac1", "\u08d3"}

var emoji = []string{"😀", "👩‍👩‍👧‍👦", "👨🏽‍💻", "🏳️‍🌈", "🏴‍☠️", "🇫🇷", "🇺🇸🇩🇪", "👍🏿", "❤️", "❤", "☺︎", "🧑‍🚀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "#️⃣", "©️", "®", "™", "🫠", "🪿", "🫩", "👁️‍🗨️", "\u200d", "\ufe0f", "🀄"}

var whites = []string{" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028", "        ", "\n\n", "\u200b"}

var bits = []string{"a", "foo", "1", "12", "!", ".", "é", "日", "=", "_", "-", "/", "//", "\\", "{", "}", "#", "▁"}

var signs = strings.Split("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»“”‘’…—–·•¿¡§¶†‡%‰€£¥ \nab1", "")

var commonWords = strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were all her
she there would their we him been has when who will no more if out so said what up its about than into them can only other time new some could these two may first then do
any my now such like our over me even most made after also did many off before must well back through years where much your way down should because long each just those
people how too little state good very make world still own see men work get here between both life being under never day same another know while last might us great old
year come since against go came right used take three States himself few house use during without again place American around however home small found Mrs thought went
say part once general high upon school every don't does got united left number course war until always away something fact water though less public put thing almost hand
enough far took head yet government system better set told nothing night end why called find going look asked later knew internationalization counterrevolutionary`)
